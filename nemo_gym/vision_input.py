"""The ecosystem's import path for inputs with images."""

from nemo_gym.ecosystem.image_prompts import build_image_input as build_image_input

"""The package of the ecosystem's import paths for judges and cases of verifiers. Ours are in `nemo_gym.verify`."""

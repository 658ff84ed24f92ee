"""The smallest environment with a tool: the model looks up the weather and answers with it."""

from __future__ import annotations

from typing import ClassVar

from fastapi import FastAPI
from pydantic import BaseModel

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.openai_utils import NeMoGymResponseFunctionToolCall

_SKIES = ("sunny", "cloudy", "rainy", "windy", "foggy")


class GetWeatherRequest(BaseModel):
    city: str


class GetWeatherResponse(BaseModel):
    city: str
    weather_description: str
    temperature_celsius: int


class WeatherVerifyResponse(BaseVerifyResponse):
    called_tool: bool
    answered: bool


class ExampleSingleToolCallResourcesServer(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/get_weather")(self.get_weather)
        return app

    async def get_weather(self, body: GetWeatherRequest) -> GetWeatherResponse:
        seed = sum(body.city.lower().encode())
        sky, temperature = _SKIES[seed % len(_SKIES)], seed % 35
        description = f"The weather in {body.city} is {sky}, {temperature} degrees Celsius."
        return GetWeatherResponse(
            city=body.city, weather_description=description, temperature_celsius=temperature
        )

    async def verify(self, body: BaseVerifyRequest) -> WeatherVerifyResponse:
        items = body.response.output
        called = any(
            isinstance(item, NeMoGymResponseFunctionToolCall) and item.name == "get_weather" for item in items
        )
        answered = bool(items) and items[-1].type == "message" and bool(body.response.output_text.strip())
        return WeatherVerifyResponse(
            **dict(body), reward=float(called and answered), called_tool=called, answered=answered
        )


if __name__ == "__main__":
    ExampleSingleToolCallResourcesServer.run_webserver()

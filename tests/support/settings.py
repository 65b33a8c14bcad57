"""Builds the settings of a job from values by the names of its options."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel

from sessionization.command_line.options import nested

M = TypeVar("M", bound=BaseModel)


def settings_of(model: type[M], given: Mapping[str, Any] = MappingProxyType({}), **options: Any) -> M:
    """The settings with these options, such as `settings_of(SessionizeSettings, input="in", heartbeat="1s")`."""
    return model.model_validate(nested(model, {**given, **options}))

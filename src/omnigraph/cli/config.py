"""The configuration of an operator, `~/.omnigraph/config.yaml` -> the graph of a profile, or of the defaults."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from omnigraph.cli import output
from omnigraph.errors import InvalidInput, Kind

HOME_ENVIRONMENT: Final = "OMNIGRAPH_HOME"
PROFILE_ENVIRONMENT: Final = "OMNIGRAPH_PROFILE"
_SCOPES: Final = ("server", "cluster", "store")
_KEYS: Final[Mapping[str, frozenset[str] | None]] = {
    "profiles": None,
    "defaults": frozenset({"store"}),
}


def profile_store(name: str) -> str:
    """Return the graph of a profile."""
    profiles = _section(_read(), "profiles")
    if name not in profiles:
        known = f"there is {', '.join(sorted(profiles))}" if profiles else f"{config_file()} defines none"
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"unknown profile {name!r}; {known}", profile=name)
    bound = profiles[name] if isinstance(profiles[name], dict) else {}
    scopes = [scope for scope in _SCOPES if bound.get(scope) is not None]
    if len(scopes) != 1:
        found = f"names {' and '.join(scopes)}" if scopes else "names no graph"
        what = f"profile {name!r} {found}; it needs exactly one, such as `store: graph.omni`"
        raise InvalidInput(Kind.INVALID_ARGUMENT, what, profile=name)
    if scopes != ["store"]:
        what = f"profile {name!r} names a {scopes[0]}, and this release reads only `store`"
        raise InvalidInput(Kind.INVALID_ARGUMENT, what, profile=name)
    return str(bound["store"])


def default_store() -> str | None:
    """Return the graph of the profile that the environment names, or that of the defaults, or None."""
    if name := os.environ.get(PROFILE_ENVIRONMENT):
        return profile_store(name)
    store = _section(_read(), "defaults").get("store")
    return None if store is None else str(store)


def config_file() -> Path:
    return Path(os.environ.get(HOME_ENVIRONMENT) or "~/.omnigraph").expanduser() / "config.yaml"


def _read() -> dict[str, Any]:
    """Return the configuration. A file that is not there is empty; unknown keys are named and ignored."""
    path = config_file()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read {path}: not UTF-8 at byte {error.start}", path=str(path)) from error
    except OSError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read {path}: {error.strerror}", path=str(path)) from error
    import yaml  # 20 ms that only a configuration needs

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{path} is not YAML: {error}", path=str(path)) from error
    if found is not None and not isinstance(found, dict):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{path} must hold a mapping, such as `defaults: {{store: graph.omni}}`", path=str(path))
    config: dict[str, Any] = found or {}
    for key in _unknown(config):
        output.note(f"warning: {path}: {key} is not known and ignored")
    return config


def _unknown(config: Mapping[str, Any]) -> list[str]:
    unknown = [str(key) for key in config if key not in _KEYS]
    for section, keys in _KEYS.items():
        if keys is not None and isinstance(config.get(section), dict):
            unknown += [f"{section}.{key}" for key in config[section] if key not in keys]
    return unknown


def _section(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = config.get(name) or {}
    if not isinstance(section, dict):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{config_file()}: {name} must be a mapping")
    return section

"""A user's own policy: one Python file that needs nothing but the public API."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from unrack.errors import PolicyError
from unrack.policy.complete import complete
from unrack.policy.contract import Policy


def load_policy(spec: str) -> Policy[Any]:
    """The policy that ``FILE.py:NAME`` names: an object, or a class or function that makes one when called bare.

    Raises
    ------
    PolicyError
        The file cannot be read or run, or NAME is not a policy.
    """
    path_text, colon, name = spec.rpartition(":")
    if not colon or not path_text or not name.isidentifier():
        raise PolicyError("policy file", repr(spec), "FILE.py:NAME")
    path = Path(path_text).expanduser()
    if not path.is_file():
        raise PolicyError("policy file", f"{path_text!r}, which is not there", "the path of a Python file")
    module_name = "unrack_policy_" + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    module_spec = importlib.util.spec_from_file_location(module_name, path)
    if module_spec is None or module_spec.loader is None:
        raise PolicyError("policy file", repr(path_text), "the path of a Python file that ends in .py")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_name] = module
    try:
        module_spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the user's file raises, SystemExit too, is the user's to see
        raise PolicyError(path_text, f"{type(error).__name__}: {error}", "a file that Python can run") from error
    if not hasattr(module, name):
        public = [key for key in vars(module) if not key.startswith("_")]
        raise PolicyError(path_text, f"no {name!r} in it", f"one of the names it defines: {', '.join(public)}")
    found = getattr(module, name)
    if isinstance(found, type) or (callable(found) and not hasattr(found, "decide")):
        try:
            found = found()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the same
            raise PolicyError(f"{path_text}, {name}()", f"{type(error).__name__}: {error}", "a policy") from error
    return complete(found, f"{path_text}, {name}")


def source_digest(spec: str) -> str:
    """SHA-256 of the file that ``FILE.py:NAME`` names."""
    return hashlib.sha256(Path(spec.rpartition(":")[0]).expanduser().read_bytes()).hexdigest()

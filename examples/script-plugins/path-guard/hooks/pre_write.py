#!/usr/bin/env python3
"""Refuses a write if any path in its arguments looks like that of a secret."""

import json
import re
import sys

NAMES = {"credentials.json", "id_rsa", "id_ed25519", "secrets.yaml", "secrets.yml"}
ENDINGS = (".pem", ".p12", ".pfx", ".key")
FOLDERS = {".ssh", ".aws", ".gnupg"}
# The arguments that hold paths, in all tools that write. Text that is to be written may speak of any file.
PATHS = {"path", "from", "to"}


def is_secret(path):
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if not parts:
        return False
    base = parts[-1].lower()
    is_env = base == ".env" or (base.startswith(".env.") and base != ".env.example")
    return is_env or base in NAMES or base.endswith(ENDINGS) or any(part in FOLDERS for part in parts[:-1])


def paths(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in PATHS and isinstance(inner, str):
                yield inner
            elif key == "patch" and isinstance(inner, str):
                yield from re.findall(r"^(?:---|\+\+\+) (?:[ab]/)?(\S+)", inner, re.MULTILINE)
            else:
                yield from paths(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner)


context = json.load(sys.stdin)
found = next((path for path in paths(context.get("args", {})) if is_secret(path)), None)
if found is None:
    answer = {"allow": True}
else:
    base = found.replace("\\", "/").rsplit("/", 1)[-1]
    answer = {
        "allow": False,
        "reason": f"path-guard blocked write to sensitive path: {found}",
        "notify": f"blocked write to {base}",
    }
print(json.dumps(answer))

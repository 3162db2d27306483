#!/usr/bin/env python3
"""Reads a file of the workspace and takes out what looks like a secret."""

import json
import os
import re
import sys

LIMIT_BYTES = 512 * 1024
SECRET = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]*(?:key|token|secret|password|passwd|credential)[A-Za-z0-9_.-]*[\"']?\s*[:=]\s*[\"']?)"
    r"(?P<value>[^\s\"',;]{6,})",
    re.IGNORECASE,
)
BEARER = re.compile(r"\b(?:sk|ghp|gho|xox[bp])[-_][A-Za-z0-9_-]{8,}")


def fail(text):
    print(json.dumps({"ok": False, "output": text}))
    sys.exit(0)


request = json.load(sys.stdin)
arguments, workspace = request["args"], os.path.realpath(request["workspace"])
path = arguments["path"]
full = os.path.realpath(os.path.join(workspace, path))
if full != workspace and not full.startswith(workspace + os.sep):
    fail(f'path "{path}" resolves outside the workspace')
try:
    with open(full, "rb") as file:
        data = file.read(LIMIT_BYTES + 1)
except OSError as error:
    fail(f'read_file "{path}" failed: {error.strerror}')
if len(data) > LIMIT_BYTES:
    fail(f'read_file "{path}" failed: it has more than {LIMIT_BYTES} bytes')
lines = data.decode("utf-8", "replace").splitlines(keepends=True)
first = arguments.get("offset", 1) - 1
text = "".join(lines[first : first + arguments.get("limit", len(lines))])
text, named = SECRET.subn(lambda it: it["name"] + "[redacted]", text)
text, bare = BEARER.subn("[redacted]", text)
answer = {"ok": True, "output": text}
if named + bare:
    answer["status"] = f"{named + bare} redacted in {path}"
print(json.dumps(answer))

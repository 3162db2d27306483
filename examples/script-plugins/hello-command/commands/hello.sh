#!/usr/bin/env bash
# Greets whoever is named behind the command, or the world. It needs nothing but python3 to read and write JSON.
exec python3 -c '
import json, sys
name = json.load(sys.stdin)["args"].strip()
if name in ("", "/hello"):
    name = "world"
print(json.dumps({"ok": True, "output": f"Hello, {name}!", "notify": f"greeted {name}", "status": f"hello → {name}"}))
'

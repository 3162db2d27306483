#!/usr/bin/env python3
"""Keeps memories in an SQLite database below the folder of the user, one for each workspace.

It knows both vocabularies: inject, save, append, list, forget, search, compact_append, and standing_prompt and write.
"""

import hashlib
import json
import os
import re
import sqlite3
import sys
import time

MAX_SHOWN = 50


def open_database(workspace):
    digest = hashlib.sha256(os.path.realpath(workspace).encode()).hexdigest()[:16]
    folder = os.path.join(os.environ["HOME"], ".config", "catalyst-code", "sqlite-memory")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    database = sqlite3.connect(os.path.join(folder, f"{digest}.db"), timeout=10)
    database.execute(
        "CREATE TABLE IF NOT EXISTS memories (id TEXT PRIMARY KEY, name TEXT, type TEXT, description TEXT, scope TEXT,"
        " content TEXT, saved_at REAL)"
    )
    return database


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "memory"


def rows(database, where="", values=()):
    columns = "id, name, type, description, scope, content"
    query = f"SELECT {columns} FROM memories {where} ORDER BY saved_at DESC, id"
    return [dict(zip(columns.split(", "), row)) for row in database.execute(query, values)]


def save(database, args):
    entry = {
        "id": args.get("id") or slug(args.get("name", "")),
        "name": args.get("name", "memory"),
        "type": args.get("type", "note"),
        "description": args.get("description", ""),
        "scope": args.get("scope", "project"),
        "content": args.get("content", ""),
    }
    database.execute("INSERT OR REPLACE INTO memories VALUES (?, ?, ?, ?, ?, ?, ?)", (*entry.values(), time.time()))
    return {"ok": True, "id": entry["id"], "output": f"saved '{entry['id']}'"}


def append(database, args):
    key = args.get("id") or slug(args.get("name", ""))
    before = rows(database, "WHERE id = ?", (key,))
    content = args.get("content", "")
    if before:
        content = before[0]["content"] + "\n" + content
    cap = args.get("cap_bytes")
    if cap:
        content = content.encode()[-cap:].decode("utf-8", "ignore")
    return save(database, {**(before[0] if before else {}), **args, "id": key, "content": content})


def inject(database):
    lines = [f"- **{it['name']}** ({it['type']}): {it['content']}" for it in rows(database)[:MAX_SHOWN]]
    return {"ok": True, "injection": "\n".join(["[MEMORY — sqlite provider]", *lines]) if lines else ""}


def act(database, action, args):
    if action in ("inject", "standing_prompt"):
        return inject(database)
    if action in ("save", "write"):
        return save(database, args)
    if action in ("append", "compact_append"):
        return append(database, args)
    if action == "list":
        found = rows(database)
        text = "\n".join(f"{it['id']}: {it['name']}" for it in found) or "no memories"
        return {"ok": True, "entries": found, "output": text}
    if action == "forget":
        n = database.execute("DELETE FROM memories WHERE id = ?", (args.get("id", ""),)).rowcount
        return {"ok": n > 0, "output": f"forgot '{args.get('id', '')}'" if n else f"no memory '{args.get('id', '')}'"}
    if action == "search":
        like = "%" + args.get("query", "") + "%"
        found = rows(database, "WHERE content LIKE ? OR name LIKE ?", (like, like))
        return {"ok": True, "entries": found, "output": "\n".join(it["content"] for it in found)}
    return {"ok": False, "output": f"unknown action: {action}"}


request = json.load(sys.stdin)
with open_database(request["workspace"]) as connection:
    print(json.dumps(act(connection, request["action"], request["args"])))

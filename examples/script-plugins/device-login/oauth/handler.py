#!/usr/bin/env python3
"""The device authorization grant of RFC 8628: login, complete, token and clear, in one script.

The server is DEVICE_LOGIN_ISSUER; it has the endpoints /device, /token and /revoke.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ISSUER = os.environ.get("DEVICE_LOGIN_ISSUER", "https://login.example.com")
CLIENT = os.environ.get("DEVICE_LOGIN_CLIENT", "linn")
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


def post(path, fields):
    data = urllib.parse.urlencode({"client_id": CLIENT, **fields}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(ISSUER + path, data=data), timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return json.load(error)


def store(path, answer):
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    kept = {
        "access_token": answer["access_token"],
        "refresh_token": answer.get("refresh_token"),
        "expires_at": int(time.time()) + int(answer.get("expires_in", 300)),
    }
    temporary = path + ".new"
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(kept, file)
    os.replace(temporary, path)
    return kept


def load(path):
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def login(request):
    device = post("/device", {})
    if "device_code" not in device:
        return {"ok": False, "error": device.get("error", "the server gave no device code")}
    return {
        "url": device["verification_uri"],
        "code": device["user_code"],
        "message": f"Open the page and enter {device['user_code']}.",
        "flow": "device_code",
        "pending": {"device_code": device["device_code"], "interval": device.get("interval", 5)},
    }


def complete(request):
    pending = request["pending"]
    interval = pending["interval"]
    while True:
        answer = post("/token", {"grant_type": GRANT, "device_code": pending["device_code"]})
        if "access_token" in answer:
            store(request["token_path"], answer)
            return {"ok": True}
        if answer.get("error") == "slow_down":
            interval += 5
        elif answer.get("error") != "authorization_pending":
            return {"ok": False, "error": answer.get("error", "the server gave no token")}
        time.sleep(interval)


def token(request):
    kept = load(request["token_path"])
    if kept is None:
        return {"access_token": None}
    if kept["expires_at"] <= time.time() + 60 and kept.get("refresh_token"):
        fields = {"grant_type": "refresh_token", "refresh_token": kept["refresh_token"]}
        answer = post("/token", fields)
        if "access_token" not in answer:
            return {"access_token": None}
        kept = store(request["token_path"], {"refresh_token": kept["refresh_token"], **answer})
    return {"access_token": kept["access_token"], "expires_at": kept["expires_at"]}


def clear(request):
    kept = load(request["token_path"])
    if kept is not None:
        post("/revoke", {"token": kept.get("refresh_token") or kept["access_token"]})
    return {"ok": True}


question = json.load(sys.stdin)
actions = {"login": login, "complete": complete, "token": token, "clear": clear}
print(json.dumps(actions[question["action"]](question)))

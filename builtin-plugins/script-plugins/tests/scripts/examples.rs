//! The plugins that are shown as examples do what they say.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use linn_bus::Context;
use linn_services::memory_provider::{MemoryProvider, NewMemory};
use linn_services::oauth::{OAuth, OAuthLogin};
use linn_services::plugin_admin::PluginCommandOutcome;
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{Running, run, until};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/script-plugins").join(name)
}

async fn install(running: &Running, name: &str) {
    let installed = running.admin.install(&example(name).display().to_string(), None).await.unwrap();
    assert_eq!(installed.name, name);
    let check = running.admin.check(&installed.path).await.unwrap();
    assert!(check.errors.is_empty() && check.warnings.is_empty(), "{check:?}");
}

#[test]
fn script_18_path_guard_keeps_every_tool_from_secrets() {
    run(async |world| {
        let tools = ["write_file", "edit", "patch", "bulk_write", "delete", "rename"];
        tools.iter().for_each(|it| world.echo(it));
        let running = world.start().await;
        install(&running, "path-guard").await;
        let denied = |tool: &str, path: &str| {
            format!(
                "Error: tool call '{tool}' denied by plugin 'path-guard' hook 'pre_write': path-guard blocked write to sensitive path: {path}"
            )
        };
        for (tool, arguments, path) in [
            ("write_file", json!({ "path": ".env", "content": "x" }), ".env"),
            ("edit", json!({ "path": "a/.env.production" }), "a/.env.production"),
            ("patch", json!({ "path": "x", "patch": "--- a/id_rsa\n+++ b/id_rsa\n" }), "id_rsa"),
            ("bulk_write", json!({ "files": [{ "path": "ok" }, { "path": "certs/server.pem" }] }), "certs/server.pem"),
            ("delete", json!({ "path": "home/.ssh/config" }), "home/.ssh/config"),
            ("rename", json!({ "from": "a", "to": "secrets.yaml" }), "secrets.yaml"),
        ] {
            assert_eq!(world.says(tool, arguments).await, denied(tool, path));
            let base = path.rsplit('/').next().unwrap();
            assert_eq!(world.told(), [format!("info [path-guard] blocked write to {base}")]);
        }
        for arguments in [json!({ "path": "src/main.rs", "content": "path: .env" }), json!({ "path": ".env.example" })]
        {
            assert!(!world.call("write_file", arguments).await.is_error);
        }
        assert!(world.told().is_empty());
    });
}

#[test]
fn script_18_redacting_reader_takes_the_place_of_the_built_in_one() {
    run(async |world| {
        world.echo("read_file");
        std::fs::write(world.work().join("conf"), "user = ada\napi_key = \"sk-abcdef0123456789\"\nlast\n").unwrap();
        std::fs::write(world.base.join("outside"), "secret").unwrap();
        let running = world.start().await;
        install(&running, "redacting-reader").await;
        let shown = world.says("read_file", json!({ "path": "conf" })).await;
        assert_eq!(shown, "user = ada\napi_key = \"[redacted]\"\nlast\n");
        assert_eq!(world.told(), ["status redacting-reader: 1 redacted in conf"]);
        assert_eq!(world.says("read_file", json!({ "path": "conf", "offset": 3, "limit": 1 })).await, "last\n");
        let outside = world.call("read_file", json!({ "path": "../outside" })).await;
        assert!(outside.is_error && crate::support::text(&outside).contains("outside the workspace"));
        assert!(world.call("read_file", json!({ "path": "missing" })).await.is_error);
        running.admin.disable("redacting-reader").await.unwrap();
        assert_eq!(world.says("read_file", json!({ "path": "conf" })).await, r#"{"path":"conf"}"#);
    });
}

#[test]
fn script_18_hello_command_greets() {
    run(async |world| {
        let running = world.start().await;
        install(&running, "hello-command").await;
        for (arguments, name) in [("Bob", "Bob"), ("", "world"), ("/hello", "world")] {
            let outcome = running.admin.run_command("hello", arguments, None).await.unwrap();
            assert_eq!(outcome, PluginCommandOutcome::Output { text: format!("Hello, {name}!"), is_ok: true });
            let expected =
                [format!("info [hello-command] greeted {name}"), format!("status hello-command: hello → {name}")];
            assert_eq!(world.told(), expected);
        }
    });
}

#[test]
fn script_18_sqlite_memory_keeps_what_it_is_told() {
    run(async |world| {
        let running = world.start().await;
        install(&running, "sqlite-memory").await;
        let memory = world.root.get::<dyn MemoryProvider>().unwrap();
        let saved = memory.save(NewMemory {
            name: "Likes tea".to_owned(),
            content: "Ada likes tea.".to_owned(),
            kind: "note".to_owned(),
            description: String::new(),
            scope: Some("project".to_owned()),
        });
        assert_eq!(saved.await.unwrap().id, "likes-tea");
        assert_eq!(memory.injection().unwrap(), "[MEMORY — sqlite provider]\n- **Likes tea** (note): Ada likes tea.");
        let Value::Object(call) = json!({ "action": "append", "id": "likes-tea", "content": "Green." }) else {
            panic!()
        };
        memory.call(call, None).await.unwrap();
        let entries = memory.list().await.unwrap().entries;
        assert_eq!((&entries[0]["content"], &entries[0]["type"]), (&json!("Ada likes tea.\nGreen."), &json!("note")));
        assert_eq!(memory.search("green").await.unwrap().entries.len(), 1);
        let unknown = Map::from_iter([("action".to_owned(), json!("get"))]);
        assert_eq!(memory.call(unknown, None).await.unwrap_err().to_string(), "unknown action: get");
        memory.forget("likes-tea", None).await.unwrap();
        assert_eq!(memory.injection().unwrap(), "");
        assert!(memory.forget("likes-tea", None).await.is_err());
        let folder = world.home().join(".config/catalyst-code/sqlite-memory");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
    });
}

/// A server for device codes: the first poll is too early, the second brings a token.
async fn device_server(ctx: &Context) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, own) = (asked.clone(), address.clone());
    ctx.spawn(async move {
        let mut n_polls = 0;
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            let request = loop {
                let mut buffer = [0; 4096];
                let n = connection.read(&mut buffer).await.unwrap();
                bytes.extend_from_slice(&buffer[..n]);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let length = text.to_lowercase().split("content-length: ").nth(1).and_then(|it| it.lines().next()?.parse().ok());
                if let (Some((_, body)), Some(length)) = (text.split_once("\r\n\r\n"), length)
                    && body.len() >= length
                {
                    break text;
                }
                assert!(n > 0, "{text}");
            };
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let body = request.split_once("\r\n\r\n").unwrap().1.to_owned();
            log.lock().unwrap().push(format!("{path} {body}"));
            let (status, answer) = match path.as_str() {
                "/device" => (200, json!({ "device_code": "d-1", "user_code": "AB-CD", "verification_uri": format!("{own}/page"), "interval": 0 })),
                "/token" if body.contains("refresh_token=r-1") => (200, json!({ "access_token": "t-2", "expires_in": 3600 })),
                "/token" => {
                    n_polls += 1;
                    if n_polls == 1 {
                        (400, json!({ "error": "authorization_pending" }))
                    } else {
                        (200, json!({ "access_token": "t-1", "refresh_token": "r-1", "expires_in": 30 }))
                    }
                }
                _ => (200, json!({})),
            };
            let answer = answer.to_string();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", answer.len());
            drop(connection.write_all((head + &answer).as_bytes()).await);
        }
    })
    .unwrap();
    (address, asked)
}

#[test]
fn script_18_device_login_logs_in_refreshes_and_logs_out() {
    run(async |mut world| {
        let (address, asked) = device_server(&world.root).await;
        let environment = world.config.environment.as_mut().unwrap();
        environment.insert("DEVICE_LOGIN_ISSUER".to_owned(), address);
        environment.insert("DEVICE_LOGIN_CLIENT".to_owned(), "linn-test".to_owned());
        environment.insert("NO_BROWSER".to_owned(), "1".to_owned());
        let running = world.start().await;
        install(&running, "device-login").await;
        let oauth = world.root.get::<dyn OAuth>().unwrap();
        assert_eq!(oauth.token("device-login").await.unwrap_err().code(), "OAUTH_NO_TOKEN");
        assert_eq!(oauth.log_in("device-login").await.unwrap(), OAuthLogin::Done);
        assert!(oauth.providers().unwrap()[0].has_credentials);
        // What it got lives for half a minute: it is refreshed at once.
        let token = oauth.token("device-login").await.unwrap();
        assert_eq!(token.access_token.expose_secret(), "t-2");
        oauth.log_out("device-login").await.unwrap();
        assert!(!oauth.providers().unwrap()[0].has_credentials);
        until(&world.root, || asked.lock().unwrap().len() >= 5).await;
        let asked = asked.lock().unwrap();
        let paths: Vec<&str> = asked.iter().map(|it| it.split(' ').next().unwrap()).collect();
        assert_eq!(paths, ["/device", "/token", "/token", "/token", "/revoke"]);
        assert!(
            asked.iter().all(|it| it.contains("client_id=linn-test")) && asked[4].contains("token=r-1"),
            "{asked:?}"
        );
    });
}

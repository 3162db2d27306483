//! Plugins that log in to providers.

use std::sync::{Arc, Mutex};

use linn_bus::Svc;
use linn_services::events::OAuthPrompt;
use linn_services::oauth::{OAuth, OAuthLogin};
use linn_services::secrets::{SecretKeeper, SecretsPlugin};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{World, kept, run, until};

/// A plugin whose script keeps what it is told and answers by action.
fn provider(world: &World, answers: &Value) -> std::path::PathBuf {
    let seen = world.base.join("seen");
    let mut script = format!("input=$(cat)\nprintf '%s\\n' \"$input\" >> '{}'\ncase $input in\n", seen.display());
    for (action, answer) in answers.as_object().unwrap() {
        script += &format!("*'\"action\":\"{action}\"'*) cat <<'EOF'\n{answer}\nEOF\n;;\n");
    }
    script += "*) echo '{\"ok\":true}';;\nesac\n";
    let oauth = json!({
        "provider_id": "it", "label": "It", "base_url": "https://api.it.example/v1", "script": "o.sh",
        "headers": [["X-Client", "linn"]], "detect_path": ".it/auth", "env_passthrough": ["IT_CLIENT"],
    });
    world.plugin("p").with("oauth", oauth).script("o.sh", &script);
    seen
}

fn oauth(world: &World) -> Svc<dyn OAuth> {
    world.root.get::<dyn OAuth>().unwrap()
}

fn prompts(world: &World) -> Arc<Mutex<Vec<OAuthPrompt>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    world.root.on(move |it: &OAuthPrompt| log.lock().unwrap().push(it.clone())).unwrap();
    heard
}

fn no_browser(world: &mut World, value: &str) {
    world.config.environment.as_mut().unwrap().insert("NO_BROWSER".to_owned(), value.to_owned());
}

#[test]
fn script_13_a_manual_login_waits_for_its_code_and_keeps_waiting_after_a_failure() {
    run(async |mut world| {
        no_browser(&mut world, "1");
        let login =
            json!({ "url": "https://it.example/go", "code": "AB-CD", "flow": "web", "pending": { "device": 7 } });
        let seen = provider(&world, &json!({ "login": login, "complete": { "ok": false, "error": "wrong code" } }));
        let running = world.start().await;
        let (oauth, heard) = (oauth(&world), prompts(&world));
        let provider_now = oauth.providers().unwrap().remove(0);
        assert_eq!(
            (provider_now.label.as_str(), provider_now.kind.as_str(), provider_now.has_credentials),
            ("It", "openai", false)
        );
        assert_eq!(oauth.complete("x").await.unwrap_err().code(), "OAUTH_NOTHING_PENDING");

        assert_eq!(oauth.log_in("it").await.unwrap(), OAuthLogin::AwaitsCode);
        let prompt = heard.lock().unwrap().remove(0);
        assert_eq!((prompt.url.as_str(), prompt.code.as_deref()), ("https://it.example/go", Some("AB-CD")));
        assert_eq!(prompt.message, "Open the URL, approve, then paste the code via /oauth-code.");
        assert_eq!(oauth.complete("bad").await.unwrap_err().to_string(), "wrong code");
        assert!(oauth.is_pending().unwrap());
        provider(&world, &json!({ "login": {}, "complete": { "ok": true } }));
        running.admin.reload().await.unwrap();
        assert_eq!(oauth.complete(" good ").await.unwrap().id, "it");
        assert!(!oauth.is_pending().unwrap());

        let seen = kept(&seen);
        assert_eq!((&seen[0]["action"], &seen[0]["headless"]), (&json!("login"), &json!(true)));
        assert!(seen[0].get("redirect_uri").is_none() && seen[2].get("redirect_uri").is_none());
        assert_eq!((&seen[2]["code"], &seen[2]["pending"]), (&json!(" good "), &json!({ "device": 7 })));
        let path = world.home().join(".config/catalyst-code/oauth/it.json").display().to_string();
        assert_eq!((&seen[0]["token_path"], &seen[0]["provider_id"]), (&json!(path), &json!("it")));
    });
}

#[test]
fn script_13_a_login_that_polls_goes_on_by_itself() {
    run(async |mut world| {
        no_browser(&mut world, "1");
        let login = json!({ "url": "http://it.example", "flow": "Device_Code" });
        let seen = provider(&world, &json!({ "login": login, "complete": { "ok": true } }));
        let _running = world.start().await;
        assert_eq!(oauth(&world).log_in("it").await.unwrap(), OAuthLogin::Done);
        assert_eq!((kept(&seen)[1]["action"].as_str(), kept(&seen)[1]["code"].as_str()), (Some("complete"), Some("")));
    });
}

async fn visit(uri: &str, query: &str) -> String {
    let (host, path) = uri.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut connection = TcpStream::connect(host.replace("localhost", "127.0.0.1")).await.unwrap();
    let request = format!("GET /{path}{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer
}

#[test]
fn script_13_3_20_18_a_browser_comes_back_with_the_code() {
    run(async |mut world| {
        no_browser(&mut world, "0");
        let opened = world.base.join("opened");
        crate::support::program(
            &world.base.join("bin/xdg-open"),
            &format!("#!/bin/sh\ncat /proc/$$/environ > '{0}.env'\necho \"$1\" > '{0}'\n", opened.display()),
        );
        let secrets = SecretKeeper::default();
        secrets.keep("sk-of-a-model-123");
        world.root.mount::<SecretsPlugin>(secrets).unwrap().running().await.unwrap();
        let environment = world.config.environment.as_mut().unwrap();
        for (name, value) in
            [("MODEL_KEY", "sk-of-a-model-123"), ("UMANS_PROVIDERS", "[{\"key\":\"x\"}]"), ("BROWSER", "lynx")]
        {
            environment.insert(name.to_owned(), value.to_owned());
        }
        let path = format!("{}:{}", world.base.join("bin").display(), std::env::var("PATH").unwrap());
        world.config.environment.as_mut().unwrap().insert("PATH".to_owned(), path);
        let login = json!({ "url": "https://it.example/?a=1", "state": "s-1" });
        let seen = provider(&world, &json!({ "login": login, "complete": { "ok": true } }));
        let _running = world.start().await;
        let service = oauth(&world);
        let heard = prompts(&world);
        let logging_in = world.root.spawn(async move { service.log_in("it").await }).unwrap();
        until(&world.root, || !heard.lock().unwrap().is_empty()).await;
        assert_eq!(heard.lock().unwrap()[0].message, "Open the URL to log in.");
        let uri = kept(&seen)[0]["redirect_uri"].as_str().unwrap().to_owned();
        assert!(uri.starts_with("http://localhost:") && uri.ends_with("/callback"), "{uri}");

        // Somebody holds a connection open and says nothing; others come and are no login.
        let idle =
            TcpStream::connect(uri[7..].split('/').next().unwrap().replace("localhost", "127.0.0.1")).await.unwrap();
        assert!(visit(&uri, "?code=forged&state=other").await.starts_with("HTTP/1.1 400"));
        assert!(visit(&uri.replace("callback", "favicon.ico"), "").await.starts_with("HTTP/1.1 404"));
        let page = visit(&uri, "?code=c%20d&state=s-1").await;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains("Login complete"), "{page}");
        assert_eq!(logging_in.join().await.unwrap().unwrap(), OAuthLogin::Done);
        let complete = &kept(&seen)[1];
        assert_eq!((&complete["code"], &complete["redirect_uri"]), (&json!("c d"), &json!(uri)));
        until(&world.root, || std::fs::read_to_string(&opened).is_ok_and(|it| it == "https://it.example/?a=1\n")).await;
        let environment = std::fs::read_to_string(opened.with_extension("env")).unwrap();
        assert!(environment.contains("BROWSER=lynx\0"), "a browser finds what it needs");
        assert!(!environment.contains("MODEL_KEY") && !environment.contains("UMANS_PROVIDERS"), "and no key");
        drop(idle);
    });
}

#[test]
fn script_13_3_a_browser_that_comes_back_without_a_code_ends_the_login_and_is_told() {
    run(async |mut world| {
        no_browser(&mut world, "0");
        let seen = provider(&world, &json!({ "login": { "url": "https://it.example", "state": "s" } }));
        let _running = world.start().await;
        let service = oauth(&world);
        let heard = prompts(&world);
        let logging_in = world.root.spawn(async move { service.log_in("it").await }).unwrap();
        until(&world.root, || !heard.lock().unwrap().is_empty()).await;
        let uri = kept(&seen)[0]["redirect_uri"].as_str().unwrap().to_owned();
        assert!(visit(&uri, "?error=access_denied&state=s").await.contains("Login failed"));
        let error = logging_in.join().await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "no code in redirect: access_denied");
    });
}

#[test]
fn script_20_19_only_pages_of_the_web_are_opened() {
    run(async |mut world| {
        no_browser(&mut world, "1");
        for (login, expected) in [
            (json!({ "url": "file:///etc/passwd" }), "login script returned a url that is neither http nor https"),
            (json!({ "url": "-version" }), "login script returned a url that is neither http nor https"),
            (json!({}), "login script did not return a url"),
            (json!({ "ok": false, "error": "closed", "flow": "existing" }), "closed"),
            (json!({ "ok": false }), "unknown error"),
        ] {
            provider(&world, &json!({ "login": login }));
            let running = world.start().await;
            let heard = prompts(&world);
            assert_eq!(oauth(&world).log_in("it").await.unwrap_err().to_string(), expected);
            assert!(heard.lock().unwrap().is_empty());
            running.fiber.dispose().await.unwrap();
        }
        provider(&world, &json!({ "login": { "flow": "existing" } }));
        let _running = world.start().await;
        assert_eq!(oauth(&world).log_in("it").await.unwrap(), OAuthLogin::Done);
        let error = oauth(&world).log_in("other").await.unwrap_err();
        assert!(error.to_string().starts_with("'other' has no plugin OAuth login"), "{error}");
    });
}

#[test]
fn script_13_4_a_newer_login_supersedes_the_one_before() {
    run(async |mut world| {
        no_browser(&mut world, "1");
        let pid = world.base.join("pid");
        let oauth_entry = json!({ "provider_id": "slow", "base_url": "u", "script": "o.sh" });
        let script = format!("cat >/dev/null; echo $$ > '{}'; sleep 300", pid.display());
        world.plugin("slow").with("oauth", oauth_entry).script("o.sh", &script);
        provider(&world, &json!({ "login": { "url": "https://it.example" } }));
        let _running = world.start().await;
        let service = oauth(&world);
        let first = world.root.spawn(async move { service.log_in("slow").await }).unwrap();
        let pid = crate::support::pid_in(&world.root, &pid).await;
        assert_eq!(oauth(&world).log_in("it").await.unwrap(), OAuthLogin::AwaitsCode);
        assert_eq!(first.join().await.unwrap().unwrap(), OAuthLogin::Superseded);
        until(&world.root, || !crate::support::runs(pid)).await;
    });
}

#[test]
fn script_20_16_a_token_is_asked_for_once_and_again_when_it_was_refused() {
    run(async |world| {
        let token = json!({ "access_token": "t-1", "expires_at": 99_999_999_999_u64, "headers": [["X-Org", "o"]] });
        let seen = provider(&world, &json!({ "token": token }));
        let _running = world.start().await;
        let oauth = oauth(&world);
        let asking = (0..5).map(|_| {
            let oauth = oauth.clone();
            async move { oauth.token("it").await.unwrap() }
        });
        let tokens = futures_util::future::join_all(asking).await;
        assert_eq!(kept(&seen).len(), 1, "however many ask");
        assert!(tokens.iter().all(|it| it.access_token.expose_secret() == "t-1"));
        assert_eq!((tokens[0].headers[0].0.as_str(), tokens[0].headers[0].1.expose_secret()), ("X-Org", "o"));
        oauth.token("it").await.unwrap();
        assert_eq!(kept(&seen).len(), 1);
        oauth.refused("it").unwrap();
        oauth.token("it").await.unwrap();
        assert_eq!(kept(&seen).len(), 2);
        let by_host = oauth.provider_for("unknown", "https://API.it.example/other").unwrap().unwrap();
        assert_eq!((by_host.id.as_str(), by_host.headers.len()), ("it", 1));
        assert!(oauth.provider_for("unknown", "https://elsewhere.example").unwrap().is_none());
    });
}

#[test]
fn script_13_5_a_token_without_a_lifetime_is_kept_for_a_while_and_none_is_an_error() {
    run(async |world| {
        let seen = provider(&world, &json!({ "token": { "access_token": "t", "expires_at": 30 } }));
        let running = world.start().await;
        let oauth = oauth(&world);
        oauth.token("it").await.unwrap();
        oauth.token("it").await.unwrap();
        assert_eq!(kept(&seen).len(), 2, "it had no minute left");
        provider(&world, &json!({ "token": { "access_token": null } }));
        running.admin.reload().await.unwrap();
        let error = oauth.token("it").await.unwrap_err();
        let expected = "oauth token script for 'it' returned no access_token (re-login may be required)";
        assert_eq!(error.to_string(), expected);
        world.plugin("p").script("o.sh", "echo no >&2; exit 1");
        let error = oauth.token("it").await;
        assert!(error.is_err());
    });
}

#[test]
fn script_20_17_the_script_clears_before_its_token_is_gone() {
    run(async |world| {
        let seen = world.base.join("seen");
        let file = world.home().join(".config/catalyst-code/oauth/it.json");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "token").unwrap();
        let script = format!("cat >/dev/null\ncat '{}' > '{}'\necho '{{}}'\n", file.display(), seen.display());
        let oauth_entry = json!({ "provider_id": "it", "base_url": "u", "script": "o.sh" });
        world.plugin("p").with("oauth", oauth_entry).script("o.sh", &script);
        let _running = world.start().await;
        let oauth = oauth(&world);
        assert!(oauth.providers().unwrap()[0].has_credentials);
        oauth.log_out("it").await.unwrap();
        assert_eq!(std::fs::read_to_string(seen).unwrap(), "token");
        assert!(!file.exists() && !oauth.providers().unwrap()[0].has_credentials);
    });
}

#[test]
fn script_5_2_a_login_finds_what_it_declared_and_a_detected_login_counts() {
    run(async |mut world| {
        let environment = world.config.environment.as_mut().unwrap();
        environment.insert("IT_CLIENT".to_owned(), "linn".to_owned());
        let oauth_entry = json!({
            "provider_id": "it", "base_url": "u", "script": "o.sh", "env_passthrough": ["IT_CLIENT"],
            "detect_path": "~/.codex/auth.json",
        });
        world
            .plugin("p")
            .with("oauth", oauth_entry)
            .script("o.sh", "printf '{\"access_token\":\"%s\"}' \"$IT_CLIENT\"");
        std::fs::create_dir_all(world.home().join(".codex")).unwrap();
        std::fs::write(world.home().join(".codex/auth.json"), "").unwrap();
        let _running = world.start().await;
        assert_eq!(oauth(&world).token("it").await.unwrap().access_token.expose_secret(), "linn");
        assert!(oauth(&world).providers().unwrap()[0].has_credentials);
    });
}

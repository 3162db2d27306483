//! Installing plugins: from a folder, an archive, a release.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use linn_bus::Context;
use linn_services::plugin_admin::PluginScope;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use zip::write::SimpleFileOptions;

use crate::support::{PluginFolder, World, answers, run};

fn source(world: &World, name: &str) -> PluginFolder {
    PluginFolder::new(world.base.join("elsewhere").join(name), name)
}

/// What is in a folder and the folders below it, by name.
fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries.map(Result::unwrap) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            found.extend(tree(&entry.path()).into_iter().map(|it| format!("{name}/{it}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

fn global_root(world: &World) -> PathBuf {
    world.home().join(".catalyst-code/plugins")
}

#[test]
fn script_14_1_a_folder_is_copied_without_what_is_no_part_of_it_and_runs() {
    run(async |world| {
        let plugin = source(&world, "p").hook("pre_tool", &answers(&json!({ "allow": false, "reason": "in" })));
        for file in [
            ".git/config",
            ".venv/x",
            "node_modules/x",
            "__pycache__/x",
            "dist/x",
            ".env",
            ".env.production",
            ".env.example",
            "data/keep",
            "data/.DS_Store",
        ] {
            let file = plugin.path.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "x").unwrap();
        }
        std::os::unix::fs::symlink("keep", plugin.path.join("data/link")).unwrap();
        fs::set_permissions(plugin.path.join("data/keep"), fs::Permissions::from_mode(0o4777)).unwrap();
        world.echo("any");
        let running = world.start().await;
        let installed = running.admin.install(&plugin.path.display().to_string(), None).await.unwrap();
        let path = world.global("p").display().to_string();
        let shown = serde_json::to_value(&installed).unwrap();
        assert_eq!(
            shown,
            json!({
                "name": "p", "version": "1.0.0", "description": "", "hooks": ["pre_tool"], "scope": "global", "path": path,
            })
        );
        let expected = [".env.example", "data/keep", "data/link", "hooks/pre_tool.sh", "plugin.json"];
        assert_eq!(tree(&world.global("p")), expected);
        let mode = fs::metadata(world.global("p").join("data/keep")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "no setuid");
        assert!(world.says("any", json!({})).await.ends_with(": in"));
        assert_eq!(tree(&global_root(&world)).len(), expected.len(), "nothing is left of the way there");

        let error = running.admin.install(&plugin.path.display().to_string(), Some("g")).await.unwrap_err();
        assert_eq!(error.to_string(), "plugin 'p' is already installed; remove it first or use a different name");
        running.admin.remove("p").await.unwrap();
        assert_eq!(tree(&global_root(&world)), [""; 0]);
        assert_eq!(world.says("any", json!({})).await, "{}");
    });
}

#[test]
fn script_14_1_an_install_into_the_workspace_needs_no_other_trust_and_survives() {
    run(async |world| {
        let plugin = source(&world, "p")
            .script("build/t.sh", "echo built")
            .with("tools", json!([{ "name": "t", "script": "./build/t.sh" }]));
        let running = world.start().await;
        let source = plugin.path.display().to_string();
        let installed = running.admin.install(&format!(" {source} "), Some("workspace")).await.unwrap();
        assert_eq!(installed.scope, PluginScope::Workspace);
        assert_eq!(world.says("t", json!({})).await, "built", "what the manifest names is copied, wherever it is");
        running.fiber.dispose().await.unwrap();
        let running = world.start().await;
        assert_eq!(running.names(), ["p"]);
        assert_eq!(running.admin.list().unwrap()[0].scope, PluginScope::Workspace);
        // It is trusted as it was installed, and not as somebody else changes it.
        fs::write(world.project("p").join("build/t.sh"), "echo changed").unwrap();
        running.admin.reload().await.unwrap();
        assert!(running.names().is_empty());
        assert_eq!(running.admin.undecided().unwrap().len(), 1);
    });
}

#[test]
fn script_20_8_a_plugin_is_not_installed_over_itself_or_into_itself() {
    run(async |world| {
        let own = PluginFolder::new(world.project("p"), "p").script("x.sh", "x");
        let running = world.start().await;
        let before = tree(&own.path);
        let error = running.admin.install(&own.path.display().to_string(), Some("workspace")).await.unwrap_err();
        assert!(error.to_string().contains("is in its place already"), "{error}");
        assert_eq!((error.code(), tree(&own.path)), ("PLUGIN_IN_PLACE", before));
        assert_eq!(running.admin.undecided().unwrap().len(), 1, "and it is not trusted by that");
        // The folder of the user is below what is installed.
        PluginFolder::new(world.home(), "around");
        let error = running.admin.install(&world.home().display().to_string(), None).await.unwrap_err();
        assert_eq!(error.code(), "PLUGIN_IN_PLACE");
        assert_eq!(tree(&global_root(&world)), [""; 0]);
    });
}

#[test]
fn script_14_1_what_cannot_be_installed_is_named_and_leaves_nothing() {
    run(async |mut world| {
        let missing = source(&world, "missing").with("hooks", json!({ "pre_tool": { "script": "no.sh" } }));
        let escapes = source(&world, "escapes");
        std::os::unix::fs::symlink("/etc/passwd", escapes.path.join("link")).unwrap();
        fs::create_dir(world.base.join("elsewhere/empty")).unwrap();
        let running = world.start().await;
        let at = |name: &str| world.base.join("elsewhere").join(name).display().to_string();
        for (source, expected) in [
            ("  ".to_owned(), "plugin source is empty".to_owned()),
            (at("nowhere"), format!("\"{}\" is not a directory", at("nowhere"))),
            (at("empty"), format!("no plugin.json found in \"{}\"", at("empty"))),
            (at("missing"), "hook script \"no.sh\" does not exist: hook 'pre_tool' of plugin 'missing'".to_owned()),
            (at("escapes"), format!("the link {}/link leads out of the plugin", at("escapes"))),
        ] {
            let error = running.admin.install(&source, None).await.unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert_eq!(tree(&global_root(&world)), [""; 0], "{expected}");
        }
        let error = running.admin.install(&at("missing"), Some("moon")).await.unwrap_err();
        assert_eq!(error.to_string(), "unknown plugin scope 'moon' (use 'global' or 'workspace')");
        drop((missing, escapes));
        running.fiber.dispose().await.unwrap();
        world.config.environment.as_mut().unwrap().remove("HOME");
        let running = world.start().await;
        let error = running.admin.install(&at("empty"), None).await.unwrap_err();
        assert_eq!(error.to_string(), "global plugin install unavailable (no ~/.catalyst-code/plugins)");
    });
}

#[test]
fn script_20_8_a_failure_at_the_last_step_puts_everything_back() {
    run(async |world| {
        let plugin = source(&world, "p");
        // What is in its place is no plugin that can be loaded.
        fs::create_dir_all(world.project("p")).unwrap();
        fs::write(world.project("p").join("mine"), "kept").unwrap();
        // Nothing can be noted where decisions are kept: a file is in the way of the folder.
        fs::write(world.home().join(".config"), "").unwrap();
        let running = world.start().await;
        let error = running.admin.install(&plugin.path.display().to_string(), Some("workspace")).await.unwrap_err();
        assert_eq!(error.code(), "PLUGIN_STORE");
        assert_eq!(tree(world.project("p").parent().unwrap()), ["p/mine"]);
        fs::remove_file(world.home().join(".config")).unwrap();
        running.admin.install(&plugin.path.display().to_string(), Some("workspace")).await.unwrap();
        assert_eq!(tree(world.project("p").parent().unwrap()), ["p/plugin.json"]);
    });
}

#[test]
fn script_20_8_a_folder_for_plugins_that_is_none_is_named() {
    run(async |world| {
        let plugin = source(&world, "p");
        let file = world.base.join("elsewhere/p.zip");
        fs::write(&file, archive(&[("plugin.json", r#"{"name":"p","version":"1"}"#, 0o644)])).unwrap();
        fs::create_dir_all(global_root(&world).parent().unwrap()).unwrap();
        fs::write(global_root(&world), "mine").unwrap();
        let running = world.start().await;
        for source in [&plugin.path, &file] {
            let error = running.admin.install(&source.display().to_string(), None).await.unwrap_err();
            assert_eq!(error.code(), "PLUGIN_INSTALL_IO");
            let begin = format!("cannot make a folder in {}: ", global_root(&world).display());
            assert!(error.to_string().starts_with(&begin), "{error}");
        }
        assert_eq!(fs::read_to_string(global_root(&world)).unwrap(), "mine");
        assert!(running.names().is_empty());
    });
}

#[test]
fn script_20_8_what_an_install_left_behind_is_no_plugin_and_goes_with_the_next_one() {
    run(async |world| {
        // An archive that was half unpacked when the power went.
        PluginFolder::new(global_root(&world).join(".installing-abcdef"), "half");
        let plugin = source(&world, "p");
        let running = world.start().await;
        assert!(running.names().is_empty() && running.admin.failures().unwrap().is_empty());
        running.admin.install(&plugin.path.display().to_string(), None).await.unwrap();
        assert_eq!(running.names(), ["p"]);
        assert_eq!(tree(&global_root(&world)), ["p/plugin.json"]);
        assert!(world.told().is_empty());
    });
}

#[test]
fn script_20_8_the_folder_of_another_plugin_is_not_taken() {
    run(async |world| {
        PluginFolder::new(world.global("p"), "other");
        let plugin = source(&world, "p");
        let running = world.start().await;
        let error = running.admin.install(&plugin.path.display().to_string(), None).await.unwrap_err();
        assert_eq!(error.code(), "PLUGIN_PLACE_OCCUPIED");
        assert_eq!(running.names(), ["other"]);
        assert_eq!(tree(&global_root(&world)), ["p/plugin.json"]);
    });
}

/// An archive of these entries: name, what it holds, permissions.
fn archive(entries: &[(&str, &str, u32)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text, mode) in entries {
        writer.start_file(*name, SimpleFileOptions::default().unix_permissions(*mode)).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

const MANIFEST: &str = r#"{"name":"zipped","version":"2","hooks":{"pre_tool":{"script":"hooks/h.sh"}}}"#;
const ALLOW: &str = "cat >/dev/null; echo '{\"allow\":true}'";

#[test]
fn script_14_2_an_archive_is_unpacked_and_installed() {
    run(async |world| {
        let file = world.base.join("elsewhere/p.zip");
        let bytes =
            archive(&[("top/plugin.json", MANIFEST, 0o644), ("top/hooks/h.sh", ALLOW, 0o6755), ("top/x", "", 0o666)]);
        fs::write(&file, bytes).unwrap();
        let running = world.start().await;
        let installed = running.admin.install(&file.display().to_string(), None).await.unwrap();
        assert_eq!(installed.name, "zipped");
        let mode = |name: &str| fs::metadata(world.global("zipped").join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("hooks/h.sh"), mode("x")), (0o755, 0o644));
        assert_eq!(tree(&global_root(&world)), ["zipped/hooks/h.sh", "zipped/plugin.json", "zipped/x"]);
    });
}

#[test]
fn script_20_20_an_archive_cannot_leave_its_folder_or_fill_the_disk() {
    run(async |world| {
        let file = world.base.join("elsewhere/p.zip");
        let running = world.start().await;
        let many: Vec<String> = (0..10_001).map(|n| format!("f{n}")).collect();
        let many: Vec<(&str, &str, u32)> = many.iter().map(|it| (it.as_str(), "", 0o644)).collect();
        let cases = [
            (archive(&[("../out", "x", 0o644)]), "zip entry '../out' has an unsafe path"),
            (archive(&[("a/../../out", "x", 0o644)]), "zip entry 'a/../../out' has an unsafe path"),
            (archive(&[("/abs", "x", 0o644)]), "zip entry '/abs' has an unsafe path"),
            (archive(&[("c:\\x", "x", 0o644)]), "zip entry 'c:\\x' has an unsafe path"),
            (archive(&many), "the archive unpacks to more than 10000 files"),
            (b"no archive".to_vec(), "invalid zip archive: "),
            (archive(&[]), "release zip is empty"),
            (archive(&[("top/readme", "x", 0o644)]), "no plugin.json found in the release root "),
            (
                archive(&[("top/a/plugin.json", MANIFEST, 0o644), ("top/b/plugin.json", MANIFEST, 0o644)]),
                "found 2 plugin.json directories in the release; pass owner/repo@tag:subdir to pick one",
            ),
            (archive(&[("top/plugin.json", MANIFEST, 0o644)]), "hook script \"hooks/h.sh\" does not exist"),
        ];
        for (bytes, expected) in cases {
            fs::write(&file, bytes).unwrap();
            let error = running.admin.install(&file.display().to_string(), None).await.unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error} is not {expected}");
            assert_eq!(tree(&global_root(&world)), [""; 0], "{expected}");
        }
        assert!(!world.base.join("out").exists() && !world.home().join(".catalyst-code/out").exists());
    });
}

#[test]
fn script_14_2_a_link_in_an_archive_is_no_link() {
    run(async |world| {
        let file = world.base.join("elsewhere/p.zip");
        let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        writer.start_file("plugin.json", SimpleFileOptions::default()).unwrap();
        writer.write_all(br#"{"name":"zipped","version":"1"}"#).unwrap();
        writer.add_symlink("link", "/etc/passwd", SimpleFileOptions::default()).unwrap();
        fs::write(&file, writer.finish().unwrap().into_inner()).unwrap();
        let running = world.start().await;
        running.admin.install(&file.display().to_string(), None).await.unwrap();
        let link = world.global("zipped").join("link");
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(fs::read_to_string(link).unwrap(), "/etc/passwd");
    });
}

/// A server that gives these answers by path, and keeps what it was asked.
async fn server(
    ctx: &Context,
    answers: Vec<(&'static str, u16, Vec<u8>)>,
) -> (String, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let (log, own) = (asked.clone(), address.clone());
    ctx.spawn(async move {
        loop {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if connection.read(&mut byte).await.unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            log.lock().unwrap().push(head);
            let found = answers.iter().find(|(it, ..)| *it == path);
            let (status, body) = found.map_or((404, Vec::new()), |(_, status, body)| (*status, body.clone()));
            // Where the archive is depends on where the server is.
            let body = match String::from_utf8(body) {
                Ok(text) => text.replace("SELF", &own).into_bytes(),
                Err(bytes) => bytes.into_bytes(),
            };
            let place = if status == 302 { format!("Location: {own}/archive\r\n") } else { String::new() };
            let head =
                format!("HTTP/1.1 {status} X\r\n{place}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            drop(connection.write_all(&[head.into_bytes(), body].concat()).await);
        }
    })
    .unwrap();
    (address, asked)
}

#[test]
fn script_14_2_a_release_is_downloaded_and_installed() {
    run(async |mut world| {
        let archive =
            archive(&[("o-r-123/sub/plugin.json", MANIFEST, 0o644), ("o-r-123/sub/hooks/h.sh", ALLOW, 0o644)]);
        let latest = br#"{"tag_name":"v1","zipball_url":"SELF/zip"}"#.to_vec();
        let no_archive = br#"{"tag_name":"v2"}"#.to_vec();
        let (address, asked) = server(
            &world.root,
            vec![
                ("/repos/o/r/releases/latest", 200, latest.clone()),
                ("/repos/o/r/releases/tags/v1", 200, latest),
                ("/repos/o/r/releases/tags/v2", 200, no_archive),
                ("/repos/o/r/releases/tags/v3", 500, "é".repeat(300).into_bytes()),
                ("/repos/o/r/releases/tags/v4", 200, b"{".to_vec()),
                ("/repos/o/r/releases/tags/v5", 200, br#"{"zipball_url":"SELF/gone"}"#.to_vec()),
                ("/zip", 302, Vec::new()),
                ("/archive", 200, archive),
            ],
        )
        .await;
        world.config.github_api = address;
        world.config.environment.as_mut().unwrap().insert("GH_TOKEN".to_owned(), "gh-token-1".to_owned());
        let running = world.start().await;
        for (source, expected) in [
            ("o/r@v9", "no GitHub Release 'v9' for o/r; publish a Release (recommended for versioning and updates) or check the tag".to_owned()),
            ("o/x", "no GitHub Releases found for o/x; publish a Release so the install can download a versioned source .zip (required for URL installs and future auto-updates)".to_owned()),
            ("o/r@v2", "GitHub release 'v2' for o/r has no zipball_url".to_owned()),
            ("o/r@v3", format!("GitHub API 500 for o/r: {}", "é".repeat(100))),
            ("o/r@v4", "GitHub release JSON parse error: EOF while parsing an object at line 1 column 1 ({)".to_owned()),
            ("o/r@v5", "download release source zip failed: HTTP 404".to_owned()),
            ("o/r:no", "no plugin.json at subdir 'no' inside the release".to_owned()),
            ("o/r:../x", "plugin subdir '../x' must not contain '..'".to_owned()),
        ] {
            let error = running.admin.install(source, None).await.unwrap_err().to_string();
            assert!(error.starts_with(&expected), "{error} is not {expected}");
        }
        assert_eq!(tree(&global_root(&world)), [""; 0]);
        asked.lock().unwrap().clear();
        running.admin.install("https://github.com/o/r@v1", None).await.unwrap();
        let asked = asked.lock().unwrap().join("");
        for wanted in
            ["GET /repos/o/r/releases/tags/v1 ", "authorization: Bearer gh-token-1", "x-github-api-version: 2022-11-28"]
        {
            assert!(asked.contains(wanted), "{asked}");
        }
        let note = fs::read_to_string(world.global("zipped").join(".catalyst-plugin-source.json")).unwrap();
        let note: Value = serde_json::from_str(&note).unwrap();
        assert_eq!(
            (&note["kind"], &note["tag"], &note["url"]),
            (&json!("github_release"), &json!("v1"), &json!("https://github.com/o/r"))
        );
        let mode = fs::metadata(world.global("zipped").join("hooks/h.sh")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "a script of a release may be executed");
        assert_eq!(running.names(), ["zipped"]);
    });
}

//! How a script is run: what it finds, what it may write, and that nothing of it stays.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use futures_util::future::join_all;
use linn_services::tools::ToolExecutionInput;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{PluginFolder, World, answers, keeps, kept, pid_in, run, runs, text, until};

/// A plugin with one tool, `probe`, that is this script.
fn probe(world: &World, script: &str, more: &Value) -> PluginFolder {
    let mut tool = json!({ "name": "probe", "script": "probe.sh", "kind": "readonly" });
    tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.plugin("p").with("tools", json!([tool])).script("probe.sh", script)
}

#[test]
fn script_5_3_r032_a_script_that_never_reads_its_input_works() {
    run(async |world| {
        probe(&world, "echo fine", &json!({}));
        let _running = world.start().await;
        for size in [20, 900_000] {
            assert_eq!(world.says("probe", json!({ "x": "y".repeat(size) })).await, "fine");
        }
    });
}

#[test]
fn script_20_7_r033_input_and_outputs_are_served_at_the_same_time() {
    run(async |world| {
        let script =
            "head -c 300000 /dev/zero | tr '\\0' x >&2\nhead -c 300000 /dev/zero | tr '\\0' y\ncat >/dev/null\n";
        probe(&world, script, &json!({ "timeout_ms": 60_000 }));
        let _running = world.start().await;
        let result = world.call("probe", json!({ "x": "y".repeat(300_000) })).await;
        assert!(!result.is_error && text(&result).ends_with('y'), "{}", &text(&result)[..100]);
    });
}

#[test]
fn script_20_7_the_deadline_is_counted_once_for_the_whole_exchange() {
    run(async |world| {
        // It takes its input only after most of its time: that is no new beginning of it.
        probe(&world, "sleep 0.7; cat >/dev/null; sleep 0.7; echo fine", &json!({ "timeout_ms": 1_000 }));
        let _running = world.start().await;
        let result = world.says("probe", json!({ "x": "y".repeat(300_000) })).await;
        assert_eq!(result, "plugin tool 'probe' handler timed out after 1000ms");
    });
}

#[test]
fn script_1_the_limits_of_what_is_written_and_told_are_exact() {
    run(async |world| {
        let script = "read -r input\nn=${input#*\\\"n\\\":}\nn=${n%%[!0-9]*}\nhead -c \"$n\" /dev/zero | tr '\\0' x\n";
        probe(&world, script, &json!({}));
        world.plugin("q").hook_with(
            "post_tool",
            &keeps(&world.base.join("seen"), &json!({ "allow": true })),
            json!({}),
        );
        let _running = world.start().await;
        let result = world.call("probe", json!({ "n": 1_048_576 })).await;
        assert!(!result.is_error, "{}", text(&result));
        let result = world.call("probe", json!({ "n": 1_048_577 })).await;
        assert!(result.is_error);
        let expected = "plugin tool 'probe' handler wait error: plugin stdout exceeds the 1048576 byte limit";
        assert_eq!(text(&result), expected);
        let result = world.call("probe", json!({ "n": 1, "x": "y".repeat(1_048_576) })).await;
        assert_eq!(text(&result), "plugin tool input exceeds the 1048576 byte limit");
    });
}

#[test]
fn script_5_4_a_flood_on_standard_error_ends_the_script() {
    run(async |world| {
        probe(&world, "cat /dev/zero >&2", &json!({}));
        let _running = world.start().await;
        let expected = "plugin tool 'probe' handler wait error: plugin stderr exceeds the 1048576 byte limit";
        assert_eq!(world.says("probe", json!({})).await, expected);
    });
}

#[test]
fn script_20_6_r038_a_deadline_ends_the_script_and_all_it_started() {
    run(async |world| {
        let pids = world.base.join("pids");
        let script = format!(
            "trap '' TERM\nsleep 300 & echo $! > '{0}.1'\nsetsid sleep 300 & echo $! > '{0}.2'\necho '{{}}'\nsleep 300\nsleep 300",
            pids.display()
        );
        probe(&world, &script, &json!({ "timeout_ms": 400 }));
        let _running = world.start().await;
        let result = world.call("probe", json!({})).await;
        assert_eq!(text(&result), "plugin tool 'probe' handler timed out after 400ms");
        for n in [1, 2] {
            let pid: i32 = fs::read_to_string(format!("{}.{n}", pids.display())).unwrap().trim().parse().unwrap();
            assert!(!runs(pid), "process {n} runs");
        }
    });
}

#[test]
fn script_20_6_r039_what_a_finished_script_leaves_behind_delays_nothing_and_is_gone() {
    run(async |world| {
        let pid = world.base.join("pid");
        let script = format!("cat >/dev/null\nprintf done\nsleep 300 & echo $! > '{}'\n", pid.display());
        probe(&world, &script, &json!({ "timeout_ms": 60_000 }));
        let _running = world.start().await;
        let before = world.root.clock().monotonic();
        assert_eq!(world.says("probe", json!({})).await, "done");
        assert!(world.root.clock().monotonic() - before < Duration::from_secs(20));
        assert!(!runs(pid_in(&world.root, &pid).await));
    });
}

#[test]
fn script_8_1_r041_a_call_that_is_aborted_ends_its_script() {
    run(async |world| {
        let pid = world.base.join("pid");
        probe(&world, &format!("sleep 300 & echo $! > '{}'; wait", pid.display()), &json!({ "timeout_ms": 60_000 }));
        let _running = world.start().await;
        let signal = CancellationToken::new();
        let input = ToolExecutionInput { signal: signal.clone(), ..ToolExecutionInput::new("c", "probe", json!({})) };
        let tools = world.tools.clone();
        let calling = world.root.spawn(async move { tools.execute(input).await.unwrap() }).unwrap();
        let pid = pid_in(&world.root, &pid).await;
        signal.cancel();
        assert_eq!(text(&calling.join().await.unwrap()), "Error: probe aborted");
        until(&world.root, || !runs(pid)).await;
    });
}

#[test]
fn a_plugin_that_is_disabled_ends_the_scripts_that_run() {
    run(async |world| {
        let pid = world.base.join("pid");
        probe(&world, &format!("sleep 300 & echo $! > '{}'; wait", pid.display()), &json!({ "timeout_ms": 600_000 }));
        let running = world.start().await;
        let tools = world.tools.clone();
        let call = async move { tools.execute(ToolExecutionInput::new("c", "probe", json!({}))).await.unwrap() };
        let calling = world.root.spawn(call).unwrap();
        let pid = pid_in(&world.root, &pid).await;
        running.admin.disable("p").await.unwrap();
        assert!(!runs(pid));
        assert!(calling.join().await.unwrap().is_error);
    });
}

#[test]
fn script_5_4_how_failures_are_told() {
    run(async |world| {
        let cases = [
            ("echo boom >&2; exit 3", "exited with exit status: 3: boom"),
            ("echo '{\"ok\":true,\"output\":\"valid\"}'; exit 1", "exited with exit status: 1: "),
            ("kill -9 $$", "exited with signal: 9 (SIGKILL): "),
            ("cat >/dev/null", "returned empty stdout"),
            ("printf ' \\n '", "returned empty stdout"),
        ];
        let tools: Vec<Value> =
            (0..cases.len()).map(|n| json!({ "name": format!("t{n}"), "script": format!("{n}.sh") })).collect();
        let mut plugin = world.plugin("p").with("tools", tools.into());
        for (n, (script, _)) in cases.iter().enumerate() {
            plugin = plugin.script(&format!("{n}.sh"), script);
        }
        // Nothing can run it.
        plugin
            .with("hooks", json!({ "post_tool": { "script": "no-program" } }))
            .script("no-program", "#!/nonexistent/interpreter\n");
        let _running = world.start().await;
        for (n, (script, expected)) in cases.iter().enumerate() {
            let expected = format!("plugin tool 't{n}' handler {expected}");
            assert_eq!(world.says(&format!("t{n}"), json!({})).await, expected, "{script}");
        }
        let told = world.told().join("\n");
        assert!(told.contains("[p] hook 'post_tool' wait error: failed to spawn script"), "{told}");
    });
}

#[test]
fn script_5_4_r049_marks_line_ends_and_bytes_that_are_no_text_are_survived() {
    run(async |world| {
        let cases: [(&str, &str); 3] = [
            ("printf '\\xef\\xbb\\xbf{\"output\":\"marked\"}\\r\\n'", "marked"),
            ("printf 'a\\xffb'", "a\u{fffd}b"),
            ("printf '\\r\\n{\"output\":\"o\"}\\r\\n\\r\\n'", "o"),
        ];
        let tools: Vec<Value> =
            (0..cases.len()).map(|n| json!({ "name": format!("t{n}"), "script": format!("{n}.sh") })).collect();
        let mut plugin = world.plugin("p").with("tools", tools.into());
        for (n, (script, _)) in cases.iter().enumerate() {
            plugin = plugin.script(&format!("{n}.sh"), script);
        }
        let _running = world.start().await;
        for (n, (script, expected)) in cases.iter().enumerate() {
            assert_eq!(world.says(&format!("t{n}"), json!({})).await, *expected, "{script}");
        }
    });
}

#[test]
fn script_5_2_r138_the_environment_is_defined_and_holds_no_secret() {
    run(async |mut world| {
        let environment = world.config.environment.as_mut().unwrap();
        for (name, value) in
            [("MODEL_KEY", "sk-test-123"), ("USER", "ada"), ("LANG", "C"), ("ENGRAPHIS_DB_PATH", "/db")]
        {
            environment.insert(name.to_owned(), value.to_owned());
        }
        probe(&world, "env | cut -d= -f1 | sort | tr '\\n' ' '", &json!({}));
        let _running = world.start().await;
        let found = world.says("probe", json!({})).await;
        // The shell sets the last three by itself.
        let own = ["PWD", "SHLVL", "_"];
        let names: Vec<&str> = found.split(' ').filter(|it| !own.contains(it)).collect();
        assert_eq!(names, ["ENGRAPHIS_DB_PATH", "HOME", "LINN_CALL", "PATH", "PYTHONDONTWRITEBYTECODE", "USER"]);
    });
}

/// The names of variables that the guide promises to every script.
fn promised() -> BTreeSet<String> {
    let guide = include_str!("../../../../docs/script-plugins.md");
    let row = guide.lines().find_map(|it| it.strip_prefix("| environment | ")).unwrap();
    let quoted = row.split('`').skip(1).step_by(2).map(|it| it.split('=').next().unwrap());
    quoted.filter(|it| it.chars().all(|it| it.is_ascii_uppercase() || it == '_')).map(str::to_owned).collect()
}

/// What a shell writes of its own environment as it was when it was started.
const OWN_ENVIRONMENT: &str = "$(tr '\\0' ';' < /proc/$$/environ)";

/// The names of what was written so.
fn variables(shown: &str) -> BTreeSet<String> {
    shown.split(';').filter_map(|it| Some(it.split_once('=')?.0.to_owned())).collect()
}

#[test]
fn script_5_2_a_script_finds_exactly_the_variables_that_the_guide_promises() {
    run(async |mut world| {
        let promised = promised();
        assert!(promised.len() >= 12, "{promised:?}");
        let environment = world.config.environment.as_mut().unwrap();
        for name in promised.iter().filter(|it| !matches!(it.as_str(), "PATH" | "HOME")) {
            environment.insert(name.clone(), "set".to_owned());
        }
        for name in [
            "LANG",
            "LC_ALL",
            "SHELL",
            "TERM",
            "SSH_AUTH_SOCK",
            "LD_PRELOAD",
            "BASH_ENV",
            "PYTHONSTARTUP",
            "MODEL_KEY",
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "UMANS_PROVIDERS",
            "CATALYST_CODE_TRUST_PROJECT_PLUGINS",
            "IT_CLIENT",
            "IT_OTHER",
        ] {
            environment.insert(name.to_owned(), "/nonexistent".to_owned());
        }
        let oauth = json!({
            "provider_id": "it", "base_url": "u", "script": "login.sh", "env_passthrough": ["IT_CLIENT", "IT_UNSET"],
        });
        world
            .plugin("p")
            .with("tools", json!([{ "name": "probe", "script": "probe.sh" }]))
            .script("probe.sh", &format!("echo \"{OWN_ENVIRONMENT}\""))
            .with("oauth", oauth)
            .script("login.sh", &format!("echo \"{{\\\"access_token\\\":\\\"{OWN_ENVIRONMENT}\\\"}}\""));
        let _running = world.start().await;
        let shown = world.says("probe", json!({})).await;
        assert_eq!(variables(&shown), promised);
        assert!(shown.contains("PYTHONDONTWRITEBYTECODE=1;") && !shown.contains("LINN_CALL=set"), "{shown}");

        let logins = world.root.get::<dyn linn_services::oauth::OAuth>().unwrap();
        let token = logins.token("it").await.unwrap();
        let found = variables(secrecy::ExposeSecret::expose_secret(&token.access_token));
        let declared = promised.into_iter().chain(["IT_CLIENT".to_owned()]).collect();
        assert_eq!(found, declared, "a login finds what it declared as well, as far as it is set");
    });
}

#[test]
fn script_20_23_plugins_of_both_roots_and_logins_run_alike() {
    run(async |mut world| {
        world.config.trust_project = Some(true);
        let seen = world.base.join("seen");
        // Who it is, where it is, and in which world.
        let shows = format!(
            "cat >/dev/null; echo \"$(id -u) $(pwd -P) $(readlink /proc/self/ns/mnt) $(readlink /proc/self/ns/pid)\" >> '{}'\n",
            seen.display()
        );
        let places = [world.global("g"), world.project("w")];
        for (path, name) in places.into_iter().zip(["g", "w"]) {
            let oauth = json!({ "provider_id": name, "base_url": "u", "script": "o.sh" });
            PluginFolder::new(path, name)
                .hook("pre_tool", &format!("{shows}echo '{{\"allow\":true}}'"))
                .with("oauth", oauth)
                .script("o.sh", &format!("{shows}echo '{{\"access_token\":\"t\"}}'"));
        }
        world.echo("any");
        let running = world.start().await;
        assert_eq!(running.names(), ["g", "w"]);
        assert_eq!(
            world.says("any", json!({})).await,
            "{}",
            "a gate of the user refuses nothing because of where it is"
        );
        let logins = world.root.get::<dyn linn_services::oauth::OAuth>().unwrap();
        for name in ["g", "w"] {
            logins.token(name).await.unwrap();
        }
        let seen = fs::read_to_string(&seen).unwrap();
        let all: Vec<&str> = seen.lines().collect();
        assert_eq!(all.len(), 4, "two hooks, two logins");
        assert!(all.iter().all(|it| *it == all[0]), "{all:#?}");
        let own = fs::read_link("/proc/self/ns/mnt").unwrap();
        assert!(all[0].contains(&own.display().to_string()), "on the machine of the harness, as the guide says");
        let guide = include_str!("../../../../docs/script-plugins.md");
        assert!(guide.contains("There is no sandbox: every script, those of logins among them, runs as the user"));
    });
}

#[test]
fn r051_a_hook_with_blanks_and_quotes_in_its_path_runs_and_one_that_is_quoted_is_told() {
    run(async |world| {
        let name = "my hooks/it's a gate.sh";
        let hooks = |script: &str| json!({ "pre_tool": { "script": script } });
        let deny = answers(&json!({ "allow": false, "reason": "closed" }));
        world.plugin("gate").script(name, &deny).with("hooks", hooks(name));
        world.plugin("quoted").script(name, &deny).with("hooks", hooks(&format!("\"{name}\"")));
        world.echo("any");
        let running = world.start().await;
        let denied = "Error: tool call 'any' denied by plugin 'gate' hook 'pre_tool': closed";
        assert_eq!(world.says("any", json!({})).await, denied);
        assert_eq!(running.names(), ["gate"]);
        let failure = running.admin.failures().unwrap().remove(0).reason;
        let expected = format!("hook script \"\"{name}\"\" does not exist: hook 'pre_tool' of plugin 'quoted'");
        assert_eq!(failure, expected);
    });
}

#[test]
fn script_5_3_scripts_run_in_the_folder_of_the_harness() {
    run(async |world| {
        probe(&world, "pwd -P", &json!({}));
        let _running = world.start().await;
        let own = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(world.says("probe", json!({})).await, own.display().to_string());
    });
}

/// In a folder that this variable names, and that is gone then, the test below runs once more.
const GONE: &str = "LINN_TEST_GONE_FOLDER";

#[test]
#[expect(clippy::disallowed_methods, reason = "the folder of a process is all of its own")]
fn r048_a_gate_refuses_in_a_folder_that_is_gone() {
    let Ok(gone) = std::env::var(GONE) else {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "runs::r048_a_gate_refuses_in_a_folder_that_is_gone"]).env(GONE, &gone);
        let output = again.current_dir(&gone).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && told.contains("1 passed"), "{told}");
        assert!(!gone.exists());
        return;
    };
    fs::remove_dir(gone).unwrap();
    assert!(std::env::current_dir().is_err());
    run(async |world| {
        let seen = world.base.join("seen");
        world.plugin("gate").hook("pre_tool", &keeps(&seen, &json!({ "allow": false, "reason": "closed" })));
        world.echo("any");
        let _running = world.start().await;
        let expected = "Error: tool call 'any' denied by plugin 'gate' hook 'pre_tool': closed";
        assert_eq!(world.says("any", json!({})).await, expected);
        assert_eq!(kept(&seen)[0]["cwd"], world.work().display().to_string(), "where it runs is told");

        // It refuses also when nothing is left of it.
        fs::remove_dir_all(world.work()).unwrap();
        fs::remove_dir_all(world.global("gate")).unwrap();
        let result = world.says("any", json!({})).await;
        assert!(result.contains("denied by plugin 'gate' hook 'pre_tool'"), "{result}");
    });
}

#[test]
fn script_5_1_r051_what_runs_a_script_goes_by_its_name() {
    run(async |mut world| {
        let shell = world.base.join("my shell");
        crate::support::program(&shell, "#!/bin/bash\necho \"mine: $(cat \"$1\")\"\n");
        let python = "#!/nonexistent\nimport sys\nprint('python', sys.version_info[0])\n";
        let tools = json!([
            { "name": "sh", "script": "a.SH" }, { "name": "py", "script": "b.py" }, { "name": "own", "script": "it's a tool" },
        ]);
        world
            .plugin("p")
            .with("tools", tools)
            .script("a.SH", "text")
            .script("b.py", python)
            .script("it's a tool", "#!/bin/sh\necho own\n");
        let shell = shell.display().to_string();
        world.config.environment.as_mut().unwrap().insert("CATALYST_CODE_SHELL".to_owned(), shell);
        let _running = world.start().await;
        assert_eq!(world.says("sh", json!({})).await, "mine: text");
        assert_eq!(world.says("py", json!({})).await, "python 3");
        assert_eq!(world.says("own", json!({})).await, "own", "blanks and quotes in its name mean nothing");
    });
}

#[test]
fn script_6_1_r050_the_input_is_one_json_object_without_a_line_end() {
    run(async |world| {
        let seen = world.base.join("seen.bin");
        world.plugin("p").hook_with(
            "pre_tool",
            &format!("cat > '{}'\necho '{{\"allow\":true}}'", seen.display()),
            json!({ "pass_args": true }),
        );
        world.echo("any");
        let _running = world.start().await;
        let arguments = json!({ "text": "日本 \\\" \n" });
        world.call("any", arguments.clone()).await;
        let bytes = fs::read(&seen).unwrap();
        let seen: Value = serde_json::from_slice(&bytes).unwrap();
        assert!(bytes.starts_with(b"{") && bytes.ends_with(b"}"));
        assert_eq!(seen["args"], arguments);
        assert_eq!((&seen["hook"], &seen["tool"]), (&json!("pre_tool"), &json!("any")));
        assert_eq!(seen["workspace"], world.work().display().to_string());
        assert!(seen["timestamp"].as_u64().unwrap() > 1_700_000_000 && seen["session_id"] == "");
    });
}

#[test]
fn r032_r040_many_runs_of_what_reads_nothing_succeed_and_leave_no_zombies() {
    run(async |world| {
        probe(&world, "echo x", &json!({}));
        let _running = world.start().await;
        for _ in 0..100 {
            let ten = (0..10).map(|_| world.says("probe", json!({ "x": "y".repeat(70_000) })));
            assert_eq!(join_all(ten).await, ["x"; 10]);
        }
        // Those of other tests, which run beside this one, are reaped in moments.
        let mut zombies = zombies();
        until(&world.root, || {
            zombies.retain(|it| is_zombie(*it));
            zombies.is_empty()
        })
        .await;
    });
}

/// Children of this process that nobody has reaped.
fn zombies() -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|it| it.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|it| is_zombie(*it)).collect()
}

fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |it| it.1);
    fields.starts_with(&format!("Z {} ", std::process::id()))
}

#[test]
fn script_1_a_timeout_of_nothing_is_over_at_once() {
    run(async |world| {
        let seen = world.base.join("seen");
        probe(&world, &keeps(&seen, &json!({})), &json!({ "timeout_ms": 0 }));
        let _running = world.start().await;
        assert_eq!(world.says("probe", json!({})).await, "plugin tool 'probe' handler timed out after 0ms");
        assert!(kept(&seen).is_empty());
    });
}

#[test]
fn script_6_2_answers_of_every_hook_are_shown_to_the_user() {
    run(async |world| {
        let answer = json!({ "allow": false, "reason": "no", "notify": "heard", "status": "busy" });
        world.plugin("p").hook("pre_tool", &answers(&answer));
        world.echo("any");
        let _running = world.start().await;
        world.call("any", json!({})).await;
        assert_eq!(world.told(), ["info [p] heard", "status p: busy"]);
    });
}

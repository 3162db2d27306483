//! The plugins from their start to their end.

use linn_bus::{FiberState, Root};
use linn_bus_test::leak_check;
use linn_plugin_shell::{BashConfig, ShellConfig, ShellPlugin, ShellServicePlugin};
use linn_services::shell::{Shell, ShellCommand};
use linn_services::tools::{Tools, ToolsPlugin};

use crate::support::{Heard, assert_none_run, is_reaped, on_root, run};

#[test]
fn what_runs_when_the_plugin_goes_is_ended_before_it_is_gone() {
    run(async |world| {
        let heard = Heard::default();
        let command =
            heard.listen(ShellCommand::line("echo $$; sh -c 'trap \"\" TERM; echo $$; sleep 300; sleep 300'"));
        let shell = world.shell.clone();
        let running = world.root.spawn(async move { shell.run(command).await }).unwrap();
        let pids = heard.pids(2).await;
        world.plugin.dispose().await.unwrap();
        assert_none_run(&pids);
        assert!(is_reaped(pids[0]));
        let error = running.join().await.unwrap().unwrap_err();
        assert_eq!(error.code(), "SHELL_UNAVAILABLE");
    });
}

#[test]
fn the_plugin_leaves_nothing_behind() {
    on_root(async |root, _| {
        root.mount::<ToolsPlugin>(()).unwrap().running().await.unwrap();
        let tools = root.get::<dyn Tools>().unwrap();
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount::<ShellPlugin>(ShellConfig::default()).unwrap();
            plugin.running().await.unwrap();
            let shell = ctx.get::<dyn Shell>().unwrap();
            assert_eq!(shell.run(ShellCommand::line("true")).await.unwrap().exit_code, Some(0));
            let names: Vec<String> = tools.visible(None).unwrap().iter().map(|it| it.name().to_string()).collect();
            assert_eq!(names, ["bash"]);
            plugin.dispose().await.unwrap();
        })
        .await;
    });
}

async fn why_not(root: &Root, config: ShellConfig) -> String {
    let plugin = root.mount::<ShellPlugin>(config).unwrap();
    let error = plugin.running().await.unwrap_err();
    assert_eq!(plugin.state(), FiberState::Failed);
    format!("{error:#}")
}

#[test]
fn a_config_that_is_wrong_is_named() {
    on_root(async |root, _| {
        let bash = |bash| ShellConfig { bash, ..ShellConfig::default() };
        let found = why_not(&root, ShellConfig { workspace: Some("a/b".into()), ..ShellConfig::default() }).await;
        assert!(found.contains("workspace: a/b is no absolute path"), "{found}");
        let found = why_not(&root, bash(BashConfig { timeout_s: 601, ..BashConfig::default() })).await;
        assert!(found.contains("bash.timeout-s: 601 is not between 1 and bash.max-timeout-s, which is 600"), "{found}");
        let found =
            why_not(&root, bash(BashConfig { deny_regex: vec!["[".to_owned()], ..BashConfig::default() })).await;
        assert!(found.contains("bash.deny-regex: `[`"), "{found}");
    });
}

#[test]
fn a_config_is_read_by_its_names() {
    let config: ShellConfig = serde_json::from_value(serde_json::json!({
        "grace-ms": 10, "environment": { "keep": ["A_KEY"] }, "bash": { "timeout-s": 5, "sudo": "when-needed" },
    }))
    .unwrap();
    assert_eq!((config.grace_ms, config.drain_ms, config.bash.timeout_s), (10, 300, 5));
    let error = serde_json::from_value::<ShellConfig>(serde_json::json!({ "grace": 10 })).unwrap_err();
    assert!(error.to_string().contains("unknown field `grace`"), "{error}");
}

#[test]
fn without_a_runtime_the_plugin_says_what_it_needs() {
    linn_bus_test::run(async |root| {
        let plugin = root.mount::<ShellServicePlugin>(ShellConfig::default()).unwrap();
        let error = format!("{:#}", plugin.running().await.unwrap_err());
        assert!(error.contains("tokio runtime with I/O"), "{error}");
    });
}

//! Commands of plugins.

use linn_services::commands::{CommandCall, CommandOutput, Commands};
use linn_services::plugin_admin::{PluginCommandMode, PluginCommandOutcome};
use serde_json::json;

use crate::support::{answers, keeps, kept, run};

#[test]
fn script_12_1_a_command_runs_its_script_and_shows_what_it_answers() {
    run(async |world| {
        let seen = world.base.join("seen");
        let answer = json!({ "output": "Hello, Bob!", "notify": "greeted Bob", "status": "hello → Bob" });
        world
            .plugin("p")
            .with(
                "commands",
                json!([
                    { "name": " /hello ", "description": "Greets.", "script": "h.sh" },
                    { "name": "fails", "script": "f.sh" },
                ]),
            )
            .script("h.sh", &keeps(&seen, &answer))
            .script("f.sh", &answers(&json!({ "ok": false, "output": "no" })));
        let running = world.start().await;
        let agent = world.agent("main").await;
        let ran = |text: &str, is_ok| PluginCommandOutcome::Output { text: text.to_owned(), is_ok };
        for name in ["hello", "/hello"] {
            let outcome = running.admin.run_command(name, "Bob", Some(agent.agent())).await.unwrap();
            assert_eq!(outcome, ran("Hello, Bob!", true));
        }
        assert_eq!(world.told()[..2], ["info [p] greeted Bob", "status p: hello → Bob"]);
        let told = &kept(&seen)[0];
        assert_eq!((&told["command"], &told["args"], &told["plugin"]), (&json!("hello"), &json!("Bob"), &json!("p")));
        assert_eq!(told["session_id"], "main");
        assert_eq!(running.admin.run_command("fails", "", None).await.unwrap(), ran("no", false));

        let commands = world.root.get::<dyn Commands>().unwrap();
        let call = || CommandCall { agent: None, arguments: String::new() };
        assert_eq!(commands.run("hello", call()).await.unwrap(), CommandOutput::Text("Hello, Bob!".into()));
        assert_eq!(commands.run("fails", call()).await.unwrap_err().code(), "COMMAND_FAILED");

        running.admin.disable("p").await.unwrap();
        let error = running.admin.run_command("hello", "", None).await.unwrap_err();
        assert_eq!(error.to_string(), "unknown plugin command 'hello'");
        assert!(running.admin.commands().unwrap().is_empty() && commands.list().unwrap().is_empty());
    });
}

#[test]
fn script_12_1_failures_of_a_command_keep_their_words() {
    run(async |world| {
        world
            .plugin("p")
            .with("commands", json!([{ "name": "c", "script": "c.sh", "timeout_ms": 200 }]))
            .script("c.sh", "sleep 300");
        let running = world.start().await;
        let outcome = running.admin.run_command("c", "", None).await.unwrap();
        let text = "plugin command 'c' handler timed out after 200ms".to_owned();
        assert_eq!(outcome, PluginCommandOutcome::Output { text, is_ok: false });
        let outcome = running.admin.run_command("c", &"x".repeat(1_048_576), None).await.unwrap();
        let text = "plugin command input exceeds the 1048576 byte limit".to_owned();
        assert_eq!(outcome, PluginCommandOutcome::Output { text, is_ok: false });
    });
}

#[test]
fn script_12_2_a_prompt_command_comes_to_a_turn() {
    run(async |world| {
        let plugin = world.plugin("p").with(
            "commands",
            json!([
                { "name": "research", "prompt_file": "prompts/r.md", "mode": "agent_turn" },
                { "name": "bare", "prompt_file": "prompts/bare.md" },
            ]),
        );
        std::fs::create_dir(plugin.path.join("prompts")).unwrap();
        let file = plugin.path.join("prompts/r.md");
        std::fs::write(&file, "Look into {{ args }} for {{plugin}}/{{command}} in {{workspace}}. {{other}}").unwrap();
        std::fs::write(plugin.path.join("prompts/bare.md"), "{{args}}").unwrap();
        let running = world.start().await;
        let outcome = running.admin.run_command("/research", "rust {{plugin}}", None).await.unwrap();
        let prompt =
            format!("Look into rust {{{{plugin}}}} for p/research in {}. {{{{other}}}}", world.work().display());
        let notice = "/research rust {{plugin}} — starting agent turn".to_owned();
        assert_eq!(outcome, PluginCommandOutcome::Turn { prompt, notice });
        let error = running.admin.run_command("bare", " ", None).await.unwrap_err();
        assert_eq!(error.to_string(), "/bare requires a request. Usage: /bare <research request>");
        let error = running.admin.run_command("bare", &"x".repeat(262_145), None).await.unwrap_err();
        assert_eq!(error.to_string(), "rendered prompt for command 'bare' exceeds the 262144 byte limit");
        std::fs::remove_file(&file).unwrap();
        let error = running.admin.run_command("research", "x", None).await.unwrap_err().to_string();
        assert!(
            error.starts_with("prompt_file \"") && error.contains("for command 'research' could not be read: "),
            "{error}"
        );
    });
}

#[test]
fn script_12_3_commands_of_one_name_are_all_listed_and_the_first_is_called() {
    run(async |world| {
        for name in ["b", "a"] {
            world
                .plugin(name)
                .with("commands", json!([{ "name": "c", "description": name, "script": "c.sh" }]))
                .script("c.sh", &format!("echo of {name}"));
        }
        let running = world.start().await;
        let listed: Vec<_> = running.admin.commands().unwrap().into_iter().map(|it| (it.plugin, it.mode)).collect();
        assert_eq!(listed, [("a".into(), PluginCommandMode::Script), ("b".into(), PluginCommandMode::Script)]);
        let outcome = running.admin.run_command("c", "", None).await.unwrap();
        assert_eq!(outcome, PluginCommandOutcome::Output { text: "of a".into(), is_ok: true });
    });
}

#[test]
fn script_20_21_a_command_that_is_given_up_ends_its_script_and_holds_up_nothing() {
    run(async |world| {
        let pid = world.base.join("pid");
        world
            .plugin("p")
            .with("commands", json!([{ "name": "slow", "script": "s.sh" }, { "name": "fast", "script": "f.sh" }]))
            .script("s.sh", &format!("echo $$ > '{}'; sleep 300", pid.display()))
            .script("f.sh", "echo fast");
        let running = world.start().await;
        let admin = running.admin.clone();
        let slow = world.root.spawn(async move { admin.run_command("slow", "", None).await }).unwrap();
        let pid = crate::support::pid_in(&world.root, &pid).await;
        let outcome = running.admin.run_command("fast", "", None).await.unwrap();
        assert_eq!(outcome, PluginCommandOutcome::Output { text: "fast".into(), is_ok: true });
        slow.abort();
        crate::support::until(&world.root, || !crate::support::runs(pid)).await;
    });
}

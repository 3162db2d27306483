//! What a prompt is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use linn_bus::{ListenerError, Next};
use linn_bus_test::run;
use linn_services::events::SystemPromptAssemble;
use linn_services::prompt::{
    AssembleContext, IDENTITY_SECTION, PERSONA_SECTION, PromptAssembly, PromptError, Section, SystemPromptConfig,
    SystemPromptPlugin, TextOf, ToolSource, UNLISTED_TOOLS,
};

use crate::support::{
    assembly, bare, of_scope, prompt, prompt_with, section_names, text, tool, tool_names, tools, value,
};

#[test]
fn the_built_in_sections_come_first() {
    run(async |root| {
        let persona = "Speak like {{who}}.".to_owned();
        let prompt = prompt_with(&root, SystemPromptConfig { persona, ..SystemPromptConfig::default() }).await;
        prompt.variable(&root, "who", value("a sailor")).unwrap();
        prompt.section(&root, Section::fixed("tools:read", 100, "Read first.")).unwrap();
        let assembly = assembly(&prompt).await;
        assert_eq!(section_names(&assembly), [IDENTITY_SECTION, PERSONA_SECTION, "tools:read"]);
        assert_eq!(assembly.sections[0].order, -100);
        let rendered = prompt.render(&assembly).unwrap().unwrap();
        assert!(rendered.ends_with("\n\nSpeak like a sailor.\n\nRead first."), "{rendered}");
    });
}

#[test]
fn sections_go_by_order_then_by_registration() {
    run(async |root| {
        let prompt = prompt(&root).await;
        for (name, order) in [("c", 20), ("a", 10), ("b", 10), ("z", -200)] {
            prompt.section(&root, Section::fixed(name, order, name)).unwrap();
        }
        assert_eq!(text(&prompt, None).await.unwrap(), "z\n\na\n\nb\n\nc");
    });
}

#[test]
fn texts_and_values_are_asked_for_at_each_assembly_with_its_context() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let scope = root.scope().unwrap();
        let n_asked = Arc::new(AtomicU32::new(0));
        let asked = n_asked.clone();
        let text_of = TextOf::new(move |context: &AssembleContext| {
            format!("{} {}", asked.fetch_add(1, SeqCst), context.scope.is_some())
        });
        prompt.section(&root, Section { name: "a".into(), order: 0, text: text_of }).unwrap();
        assert_eq!(text(&prompt, None).await.unwrap(), "0 false");
        assert_eq!(text(&prompt, Some(scope.key())).await.unwrap(), "1 true");
        scope.dispose().await.unwrap();
    });
}

#[test]
fn sp_01_what_a_scope_has_shadows_what_all_have_for_it_alone() {
    run(async |root| {
        let config = SystemPromptConfig { persona: "for all, {{x}}".into(), ..bare() };
        let prompt = prompt_with(&root, config).await;
        prompt.variable(&root, "x", value("1")).unwrap();
        let (mine, other) = (root.scope().unwrap(), root.scope().unwrap());
        prompt.section(mine.context(), Section::fixed(PERSONA_SECTION, 0, "mine, {{x}}")).unwrap();
        prompt.variable(mine.context(), "x", value("2")).unwrap();
        prompt.section(mine.context(), Section::fixed("more", -5, "more")).unwrap();

        assert_eq!(text(&prompt, Some(mine.key())).await.unwrap(), "more\n\nmine, 2");
        assert_eq!(text(&prompt, Some(other.key())).await.unwrap(), "for all, 1");
        assert_eq!(text(&prompt, None).await.unwrap(), "for all, 1");
        mine.dispose().await.unwrap();
        assert_eq!(text(&prompt, Some(mine.key())).await.unwrap(), "for all, 1");
    });
}

#[test]
fn sp_01_a_text_that_is_shadowed_is_not_asked_for() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let scope = root.scope().unwrap();
        let broken = Section { name: "a".into(), order: 0, text: TextOf::new(|_| panic!("shadowed")) };
        prompt.section(&root, broken).unwrap();
        prompt.section(scope.context(), Section::fixed("a", 0, "fine")).unwrap();
        assert_eq!(text(&prompt, Some(scope.key())).await.unwrap(), "fine");
        scope.dispose().await.unwrap();
    });
}

#[test]
fn a_text_that_panics_is_an_error_that_names_its_plugin() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let inner = prompt.clone();
        let plugin = root.mount_fn("chatty", move |ctx: linn_bus::Context, (): ()| {
            let prompt = inner.clone();
            async move {
                let text = TextOf::new(|_: &AssembleContext| -> String { panic!("no words") });
                prompt.section(&ctx, Section { name: "a".into(), order: 0, text }).map(drop)
            }
        });
        let plugin = plugin.unwrap();
        plugin.running().await.unwrap();
        let error = text(&prompt, None).await.unwrap_err();
        assert_eq!(error.code(), "PROMPT_PART_FAILED");
        assert!(error.to_string().contains("chatty") && error.to_string().contains("no words"), "{error}");
        plugin.dispose().await.unwrap();
        assert_eq!(text(&prompt, None).await.unwrap(), "");
    });
}

#[test]
fn tools_go_by_name_and_those_of_a_scope_count() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let scope = root.scope().unwrap();
        prompt.tools(&root, tools(&["write", "Bash", "read"])).unwrap();
        prompt.tools(&root, tools(&["list"])).unwrap();
        prompt.tools(&root, ToolSource::new(|_| vec![tool("read", "the second")])).unwrap();
        prompt.tools(scope.context(), ToolSource::new(|_| vec![tool("read", "of one"), tool("own", "")])).unwrap();

        let for_all = assembly(&prompt).await;
        assert_eq!(tool_names(&for_all), ["Bash", "list", "read", "write"]);
        assert_eq!(for_all.tools[2].description, "");
        let of_one = prompt.assemble(of_scope(scope.key())).await.unwrap();
        assert_eq!(tool_names(&of_one), ["Bash", "list", "own", "read", "write"]);
        assert_eq!(of_one.tools[3].description, "of one");
        scope.dispose().await.unwrap();
    });
}

fn ordered(order: &[&str]) -> SystemPromptConfig {
    SystemPromptConfig { tool_order: Some(order.iter().map(|it| (*it).to_owned()).collect()), ..bare() }
}

#[test]
fn sp_02_tools_go_as_configured() {
    run(async |root| {
        let prompt = prompt_with(&root, ordered(&["write", UNLISTED_TOOLS, "bash"])).await;
        prompt.tools(&root, tools(&["bash", "read", "list", "write"])).unwrap();
        assert_eq!(tool_names(&assembly(&prompt).await), ["write", "list", "read", "bash"]);
    });
}

#[test]
fn sp_02_a_configured_tool_that_there_is_not_rejects_the_assembly() {
    run(async |root| {
        let prompt = prompt_with(&root, ordered(&["wirte", UNLISTED_TOOLS])).await;
        prompt.tools(&root, tools(&["write", "bash"])).unwrap();
        let error = prompt.assemble(AssembleContext::default()).await.unwrap_err();
        assert_eq!(error.code(), "BAD_TOOL_ORDER");
        let expected = "the configured order of tools names `wirte`, and there is no such tool; there are: bash, write";
        assert_eq!(error.to_string(), expected);
    });
}

#[test]
fn sp_02_a_configured_tool_that_this_prompt_may_not_show_is_absent() {
    run(async |root| {
        let prompt = prompt_with(&root, ordered(&["write", "read", UNLISTED_TOOLS])).await;
        let scope = root.scope().unwrap();
        // What a restriction of the agent does to the source for all.
        prompt
            .tools(
                &root,
                ToolSource::new(|context| match &context.scope {
                    Some(_) => vec![tool("read", "")],
                    None => vec![tool("read", ""), tool("write", "")],
                }),
            )
            .unwrap();
        assert_eq!(tool_names(&prompt.assemble(of_scope(scope.key())).await.unwrap()), ["read"]);
        assert_eq!(tool_names(&assembly(&prompt).await), ["write", "read"]);
        scope.dispose().await.unwrap();
    });
}

#[test]
fn sp_02_an_order_of_the_wrong_shape_does_not_start() {
    run(async |root| {
        for (order, why) in [
            (&["read"][..], "put `<unlisted-tools>` in its place"),
            (&["read", UNLISTED_TOOLS, "read"], "names `read` twice"),
            (&[UNLISTED_TOOLS, UNLISTED_TOOLS], "names `<unlisted-tools>` twice"),
        ] {
            let mounted = root.mount::<SystemPromptPlugin>(ordered(order)).unwrap();
            let error = mounted.running().await.unwrap_err();
            assert_eq!(error.code(), "CONFIG_INVALID");
            assert!(format!("{error:#}").contains(why), "{error:#}");
            mounted.dispose().await.unwrap();
        }
    });
}

#[test]
fn listeners_change_everything_that_is_not_protected() {
    run(async |root| {
        let prompt = prompt(&root).await;
        prompt.section(&root, Section::fixed("a", 5, "a {{x}}")).unwrap();
        prompt.tools(&root, tools(&["read", "write"])).unwrap();
        prompt.variable(&root, "x", value("1")).unwrap();
        root.on(async |event: &SystemPromptAssemble, next: Next<'_, SystemPromptAssemble>| {
            assert_eq!(event.assembly.sections.len(), 3);
            let mut assembly: PromptAssembly = next.run().await?;
            assembly.sections[2].text += " changed";
            assembly.tools.remove(0);
            assembly.variables.insert("x".into(), Some("2".into()));
            Ok::<_, ListenerError>(assembly)
        })
        .unwrap();
        let changed = assembly(&prompt).await;
        assert_eq!(prompt.render(&changed).unwrap().as_deref(), Some("a 2 changed"));
        assert_eq!(tool_names(&changed), ["write"]);
    });
}

#[test]
fn lp_05_no_sections_are_no_system_text() {
    run(async |root| {
        let prompt = prompt_with(&root, SystemPromptConfig::default()).await;
        root.on(async |_: &SystemPromptAssemble, _: Next<'_, SystemPromptAssemble>| PromptAssembly::default()).unwrap();
        assert_eq!(prompt.render(&assembly(&prompt).await).unwrap(), None);
    });
}

#[test]
fn a_listener_that_fails_is_an_error_of_the_assembly() {
    run(async |root| {
        let prompt = prompt(&root).await;
        root.on(async |_: &SystemPromptAssemble, _: Next<'_, SystemPromptAssemble>| {
            Err::<PromptAssembly, _>(linn_bus::Fault::msg("no prompt today"))
        })
        .unwrap();
        let error = prompt.assemble(AssembleContext::default()).await.unwrap_err();
        assert!(matches!(&error, PromptError::Listener(_)), "{error:?}");
        assert!(error.to_string().contains("no prompt today"), "{error}");
    });
}

#[test]
fn a_listener_of_a_scope_changes_the_prompts_of_that_scope() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let scope = root.scope().unwrap();
        prompt.section(&root, Section::fixed("a", 0, "a")).unwrap();
        scope
            .context()
            .on(async |_: &SystemPromptAssemble, _: Next<'_, SystemPromptAssemble>| PromptAssembly::default())
            .unwrap();
        assert_eq!(text(&prompt, Some(scope.key())).await.unwrap(), "");
        assert_eq!(text(&prompt, None).await.unwrap(), "a");
        scope.dispose().await.unwrap();
    });
}

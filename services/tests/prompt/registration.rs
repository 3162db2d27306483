//! How parts come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use linn_bus::{Context, EffectHandle, Fault, Plugin, Root, Svc};
use linn_bus_test::{leak_check, run};
use linn_services::events::SystemPromptChange;
use linn_services::prompt::{PromptError, Protection, Section, SystemPrompt, SystemPromptPlugin};

use crate::support::{assembly, bare, prompt, section_names, text, tool_names, tools, value};

fn code<T>(result: Result<T, PromptError>) -> &'static str {
    result.err().unwrap().code()
}

#[test]
fn a_name_that_is_taken_in_its_layer_is_refused() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let scope = root.scope().unwrap();
        for ctx in [root.context(), scope.context()] {
            prompt.section(ctx, Section::fixed("a", 0, "first")).unwrap();
            prompt.variable(ctx, "x", value("first")).unwrap();
        }
        for ctx in [root.context(), scope.context()] {
            let error = prompt.section(ctx, Section::fixed("a", 0, "second")).unwrap_err();
            assert_eq!(error.to_string(), "a section `a` is registered already");
            let error = prompt.variable(ctx, "x", value("second")).unwrap_err();
            assert_eq!(error.to_string(), "a variable `x` is registered already");
            assert_eq!(error.code(), "DUPLICATE_PROMPT_PART");
        }
        assert_eq!(text(&prompt, None).await.unwrap(), "first");
        assert_eq!(code(prompt.section(&root, Section::fixed("harness:identity", 0, ""))), "DUPLICATE_PROMPT_PART");
        scope.dispose().await.unwrap();
    });
}

#[test]
fn names_of_variables_have_a_shape() {
    run(async |root| {
        let prompt = prompt(&root).await;
        for name in ["", "X", "1a", "a-b", "a b", "é", "_a"] {
            assert_eq!(code(prompt.variable(&root, name, value(""))), "BAD_VARIABLE", "{name}");
        }
        prompt.variable(&root, "a_1b", value("")).unwrap();
    });
}

#[test]
fn a_protection_names_something() {
    run(async |root| {
        assert_eq!(code(prompt(&root).await.protect(&root, Protection::default())), "PROTECTION_EMPTY");
    });
}

#[test]
fn each_change_is_told() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let n_told = Arc::new(AtomicU32::new(0));
        let told = n_told.clone();
        root.on(move |_: &SystemPromptChange| {
            told.fetch_add(1, SeqCst);
        })
        .unwrap();
        let handles = [
            prompt.section(&root, Section::fixed("a", 0, "")).unwrap(),
            prompt.variable(&root, "x", value("")).unwrap(),
            prompt.tools(&root, tools(&[])).unwrap(),
            prompt.protect(&root, Protection { sections: vec!["a".into()], tools: vec![] }).unwrap(),
        ];
        assert_eq!(n_told.load(SeqCst), 4);
        assert!(prompt.section(&root, Section::fixed("a", 0, "")).is_err());
        assert_eq!(n_told.load(SeqCst), 4, "what was never there is not told");
        for handle in handles {
            handle.dispose().await;
        }
        assert_eq!(n_told.load(SeqCst), 8);
    });
}

#[test]
fn who_hears_of_an_end_does_not_see_the_part_any_more() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let handle = prompt.variable(&root, "x", value("")).unwrap();
        let inner = prompt.clone();
        let is_free = Arc::new(AtomicBool::new(false));
        let seen = is_free.clone();
        let ctx = root.context().clone();
        let listener = root
            .on(move |_: &SystemPromptChange| {
                if !seen.load(SeqCst) {
                    seen.store(true, SeqCst);
                    assert!(inner.variable(&ctx, "x", value("")).is_ok());
                }
            })
            .unwrap();
        handle.dispose().await;
        assert!(is_free.load(SeqCst));
        listener.dispose();
        assert_eq!(code(prompt.variable(&root, "x", value(""))), "DUPLICATE_PROMPT_PART");
    });
}

#[test]
fn sp_07_a_change_that_is_refused_is_taken_back() {
    type Register = fn(&Svc<dyn SystemPrompt>, &Root) -> Result<EffectHandle, PromptError>;
    run(async |root| {
        let prompt = prompt(&root).await;
        let refusing = root.on(|_: &SystemPromptChange| Err::<(), _>(Fault::msg("not now"))).unwrap();
        let all: [Register; 4] = [
            |prompt, root| prompt.section(root, Section::fixed("a", 0, "a")),
            |prompt, root| prompt.variable(root, "x", value("1")),
            |prompt, root| prompt.tools(root, tools(&["read"])),
            |prompt, root| prompt.protect(root, Protection { sections: vec!["b".into()], tools: vec![] }),
        ];
        for register in all {
            let error = register(&prompt, &root).unwrap_err();
            assert_eq!(error.code(), "CHANGE_REFUSED");
            assert!(error.to_string().contains("not now"), "{error}");
        }
        refusing.dispose();
        let assembly = assembly(&prompt).await;
        assert_eq!(section_names(&assembly), ["harness:identity", "deployment:persona"]);
        assert!(assembly.variables.is_empty() && tool_names(&assembly).is_empty());
        for register in all {
            register(&prompt, &root).unwrap();
        }
    });
}

struct Speaks;

impl Plugin for Speaks {
    const NAME: &'static str = "speaks";
    type Config = &'static str;
    type Needs = Svc<dyn SystemPrompt>;
    async fn start(ctx: &Context, words: &'static str, prompt: Svc<dyn SystemPrompt>) -> Result<(), Fault> {
        prompt.section(ctx, Section::fixed("speech", 0, words))?;
        prompt.variable(ctx, "speech", value(words))?;
        Ok(())
    }
}

#[test]
fn a_reload_takes_names_over() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let old = root.mount::<Speaks>("old").unwrap();
        old.running().await.unwrap();
        let prepared = root.prepare_for::<Speaks>(&old, "new").unwrap();
        prepared.fiber().running().await.unwrap();
        assert_eq!(text(&prompt, None).await.unwrap(), "old");
        let switched = prepared.switch().await.unwrap();
        assert_eq!(text(&prompt, None).await.unwrap(), "new");
        switched.old_gone().await.unwrap();
        assert_eq!(text(&prompt, None).await.unwrap(), "new");
        assert_eq!(root.mount::<Speaks>("second").unwrap().running().await.unwrap_err().code(), "START_FAILED");
    });
}

#[test]
fn the_prompt_goes_without_a_trace() {
    run(async |root| {
        leak_check(&root, async |ctx| {
            let plugin = ctx.mount::<SystemPromptPlugin>(bare()).unwrap();
            plugin.running().await.unwrap();
            let speaks = ctx.mount::<Speaks>("a").unwrap();
            speaks.running().await.unwrap();
            let prompt = ctx.get::<dyn SystemPrompt>().unwrap();
            assert_eq!(text(&prompt, None).await.unwrap(), "a");
            speaks.dispose().await.unwrap();
            plugin.dispose().await.unwrap();
        })
        .await;
    });
}

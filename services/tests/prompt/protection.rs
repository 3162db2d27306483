//! What listeners cannot change.

use linn_bus::{ListenerError, Next, Root, Svc};
use linn_bus_test::run;
use linn_services::events::SystemPromptAssemble;
use linn_services::prompt::{AssembledSection, PromptAssembly, Protection, Section, SystemPrompt};

use crate::support::{assembly, of_scope, prompt, section_names, text, tool, tool_names, tools};

fn sections(names: &[&str]) -> Protection {
    Protection { sections: names.iter().map(|it| (*it).to_owned()).collect(), tools: vec![] }
}

/// A prompt of the sections a, b, c, d and the tools p, q, r, with what is protected.
async fn letters(root: &Root, protection: Protection) -> Svc<dyn SystemPrompt> {
    let prompt = prompt(root).await;
    for (order, name) in ["a", "b", "c", "d"].iter().enumerate() {
        let order = i32::try_from(order).unwrap() + 1;
        prompt.section(root, Section::fixed(name, order, format!("{name}0"))).unwrap();
    }
    prompt.tools(root, tools(&["p", "q", "r"])).unwrap();
    prompt.protect(root, protection).unwrap();
    prompt
}

fn section(name: &str, text: &str) -> AssembledSection {
    AssembledSection { name: name.into(), order: 0, text: text.into() }
}

/// Has a listener do something to each assembly.
fn change(root: &Root, change: fn(&mut PromptAssembly)) {
    root.on(linn_bus::listener!(async move |_: &SystemPromptAssemble, next: Next<'_, SystemPromptAssemble>| {
        let mut assembly = next.run().await?;
        // The two built-in sections are empty here and of no account.
        assembly.sections.retain(|it| !it.text.is_empty());
        change(&mut assembly);
        Ok::<_, ListenerError>(assembly)
    }))
    .unwrap();
}

#[test]
fn sp_03_a_protected_section_that_was_taken_out_comes_back_in_its_place() {
    run(async |root| {
        let prompt = letters(&root, sections(&["b"])).await;
        change(&root, |it| it.sections.retain(|it| it.name != "b"));
        assert_eq!(text(&prompt, None).await.unwrap(), "a0\n\nb0\n\nc0\n\nd0");
    });
}

#[test]
fn sp_03_a_protected_section_that_was_replaced_or_doubled_is_there_once_as_it_was() {
    run(async |root| {
        let prompt = letters(&root, sections(&["b"])).await;
        change(&root, |it| {
            it.sections[1].text = "changed".into();
            it.sections.push(section("b", "again"));
            it.sections.insert(0, section("b", "first"));
        });
        assert_eq!(text(&prompt, None).await.unwrap(), "a0\n\nb0\n\nc0\n\nd0");
    });
}

#[test]
fn sp_03_a_protected_section_goes_before_the_next_one_that_survives() {
    run(async |root| {
        let prompt = letters(&root, sections(&["a", "b"])).await;
        change(&root, |it| {
            it.sections.retain(|it| it.name == "d");
            it.sections.insert(0, section("new", "new"));
        });
        assert_eq!(text(&prompt, None).await.unwrap(), "new\n\na0\n\nb0\n\nd0");
    });
}

#[test]
fn sp_03_a_protected_section_without_a_neighbour_behind_it_goes_to_the_end() {
    run(async |root| {
        let prompt = letters(&root, sections(&["c", "d"])).await;
        change(&root, |it| it.sections.reverse());
        assert_eq!(text(&prompt, None).await.unwrap(), "b0\n\na0\n\nc0\n\nd0");
    });
}

#[test]
fn sp_03_protected_tools_are_restored_as_well() {
    run(async |root| {
        let protection = Protection { sections: vec![], tools: vec!["q".into(), "absent".into()] };
        let prompt = letters(&root, protection).await;
        change(&root, |it| {
            it.tools[1].description = "changed".into();
            it.tools.push(tool("absent", "injected"));
            it.tools.swap(0, 1);
        });
        let assembly = assembly(&prompt).await;
        assert_eq!(tool_names(&assembly), ["p", "q", "r"]);
        assert_eq!(assembly.tools[1].description, "");
    });
}

#[test]
fn sp_04_a_protected_name_that_was_not_there_stays_away() {
    run(async |root| {
        let prompt = letters(&root, sections(&["absent"])).await;
        change(&root, |it| it.sections.push(section("absent", "injected")));
        assert_eq!(section_names(&assembly(&prompt).await), ["a", "b", "c", "d"]);
    });
}

#[test]
fn a_protection_goes_with_its_handle() {
    run(async |root| {
        let prompt = letters(&root, sections(&["a"])).await;
        let handle = prompt.protect(&root, sections(&["b"])).unwrap();
        change(&root, |it| it.sections.clear());
        assert_eq!(text(&prompt, None).await.unwrap(), "a0\n\nb0");
        handle.dispose().await;
        assert_eq!(text(&prompt, None).await.unwrap(), "a0");
    });
}

#[test]
fn a_section_that_is_protected_for_all_cannot_be_shadowed() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let scope = root.scope().unwrap();
        prompt.section(&root, Section::fixed("a", 0, "for all")).unwrap();
        // One that was there before counts no more.
        prompt.section(scope.context(), Section::fixed("a", 0, "before")).unwrap();
        prompt.protect(&root, sections(&["a", "b"])).unwrap();
        assert_eq!(text(&prompt, Some(scope.key())).await.unwrap(), "for all");
        let error = prompt.section(scope.context(), Section::fixed("b", 0, "behind")).unwrap_err();
        assert_eq!(error.code(), "PROTECTED_SECTION");
        assert_eq!(text(&prompt, Some(scope.key())).await.unwrap(), "for all");
        scope.dispose().await.unwrap();
    });
}

#[test]
fn a_protection_of_a_scope_keeps_what_the_scope_has() {
    run(async |root| {
        let prompt = prompt(&root).await;
        let scope = root.scope().unwrap();
        prompt.section(&root, Section::fixed("a", 0, "for all")).unwrap();
        prompt.section(scope.context(), Section::fixed("a", 0, "of one")).unwrap();
        prompt.protect(scope.context(), sections(&["a"])).unwrap();
        change(&root, |it| it.sections.clear());
        assert_eq!(text(&prompt, Some(scope.key())).await.unwrap(), "of one");
        assert_eq!(prompt.assemble(of_scope(&root.new_scope_key())).await.unwrap().sections, []);
        scope.dispose().await.unwrap();
    });
}

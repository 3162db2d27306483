//! What the derive writes, and what it says about wrong declarations.

use super::*;

fn expanded(input: TokenStream) -> String {
    let output = derive(input).expect("the declaration is right");
    syn::parse2::<syn::File>(output.clone()).expect("the expansion is Rust");
    output.to_string().replace([' ', '\n'], "")
}

/// All messages about an event with these keys.
fn wrong(keys: &str) -> String {
    declared(&format!("#[event({keys})] struct Called {{ agent: ScopeKey }}"))
}

fn declared(source: &str) -> String {
    let error = derive(source.parse().expect("the test's source is Rust")).expect_err("the declaration is wrong");
    error.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_full_declaration_is_expanded() {
    let output = expanded(quote! {
        /// A tool call is about to run.
        ///
        /// More.
        #[event(name = "tools/pre-execute", mode = Waterfall, output = Result<Vec<u8>, Refused>, subject = agent)]
        pub struct ToolPreExecute {
            pub agent: ScopeKey,
        }
    });
    for part in [
        "unsafeimpl::linn_bus::EventforToolPreExecute{constNAME:&'staticstr=\"tools/pre-execute\";constORDERED:bool=false;",
        "typeMode=::linn_bus::Waterfall;typeOutput=Result<Vec<u8>,Refused>;typeScope=::linn_bus::Subject;",
        "mode:::linn_bus::ModeName::Waterfall,output:\"Result<Vec<u8>,Refused>\",scoped:true,ordered:false,has_view:false,",
        r#"docs:"Atoolcallisabouttorun.\n\nMore.""#,
        "::core::concat!(::core::module_path!(),\"::\",\"ToolPreExecute\")",
        "impl::linn_bus::HasSubjectforToolPreExecute",
        "::linn_bus::__private::SubjectOf::subject_of(&(self.agent))",
        "EventRegistration(<ToolPreExecuteas::linn_bus::Event>::__slot)",
    ] {
        assert!(output.contains(part), "no {part} in {output}");
    }
    assert!(!output.contains("__queued"), "{output}");
}

#[test]
fn a_short_declaration_is_expanded() {
    let output = expanded(quote! {
        #[event(name = "tools/changed", mode = Emit, ordered)]
        enum ToolsChanged { Added, Removed }
    });
    for part in [
        "constORDERED:bool=true;",
        "typeOutput=::core::convert::Infallible;typeScope=::linn_bus::Everybody;",
        "output:\"()\",scoped:false,ordered:true,has_view:false,has_output_view:false,has_schema:false,docs:\"\"",
        "fn__queued(&self)->",
    ] {
        assert!(output.contains(part), "no {part} in {output}");
    }
    assert!(!output.contains("HasSubject"), "{output}");
    assert!(!output.contains("if_json"), "{output}");
}

#[test]
fn what_is_shown_as_json_is_left_to_the_feature() {
    let output = expanded(quote! {
        #[event(name = "a/b", mode = Bail, output = u32, view, output_view = numbers::shown, schema)]
        struct Shown;
    });
    for part in [
        "has_view:true,has_output_view:true,has_schema:true,",
        "::linn_bus::__private::if_json!{\"view\"fn__view(&self)->",
        "{::linn_bus::__private::serialized(self)}",
        "::linn_bus::__private::if_json!{\"output_view\"fn__output_view(output:&<Selfas::linn_bus::Event>::Output)->",
        "{::linn_bus::__private::shown_by(numbers::shown,output)}",
        "::linn_bus::__private::if_json!{\"schema\"fn__schema()->",
        "{::linn_bus::__private::schema_of::<Self>()}",
    ] {
        assert!(output.contains(part), "no {part} in {output}");
    }
}

#[test]
fn keys_of_views_are_checked() {
    let output = wrong("name = \"a/b\", mode = Emit, output_view");
    assert!(output.contains("a `Emit` event has no output to show: remove `output_view`"), "{output}");
    let schema = wrong("name = \"a/b\", mode = Emit, schema = Value");
    assert!(schema.contains("`schema` is a flag: write `schema` alone"), "{schema}");
    let view = wrong("name = \"a/b\", mode = Emit, view = |it| it.shown()");
    assert!(view.contains("names a `fn(&Self) -> serde_json::Value`, as in `view = Self::shown`"), "{view}");
}

#[test]
fn a_subject_is_an_expression_over_self() {
    for (subject, expression) in [
        ("agent", "&(self.agent)"),
        ("0", "&(self.0)"),
        ("self.exec.agent", "&(self.exec.agent)"),
        ("self.agent()", "&(self.agent())"),
        ("match self { Self { agent, .. } => Some(agent) }", "&(matchself{Self{agent,..}=>Some(agent)})"),
    ] {
        let source =
            format!("#[event(name = \"a/b\", mode = Emit, subject = {subject})] struct S {{ agent: ScopeKey }}");
        let output = expanded(source.parse().expect("the test's source is Rust"));
        assert!(output.contains(expression), "no {expression} in {output}");
    }
}

#[test]
fn keys_may_be_spread_over_attributes() {
    expanded(quote!(
        #[event(name = "a/b")]
        #[event(mode = Emit,)]
        struct S;
    ));
}

#[test]
fn docs_are_no_part_of_the_digest() {
    let digest = |source: &str| {
        let output = expanded(source.parse().expect("the test's source is Rust"));
        output.split("tokens:").nth(1).and_then(|rest| rest.split(',').next()).map(str::to_owned)
    };
    let base = digest("#[event(name = \"a/b\", mode = Emit)] struct S { a: u8 }");
    assert_eq!(base, digest("/// Docs.\n#[event(name = \"a/b\", mode = Emit)]\nstruct S {\n/// Docs.\na: u8 }"));
    assert_ne!(base, digest("#[event(name = \"a/b\", mode = Emit)] struct S { a: u16 }"));
}

#[test]
fn names_are_checked() {
    assert_eq!(
        wrong("mode = Emit"),
        "an event needs a name: `#[event(name = \"area/name\", ..)]`, as in \"tools/pre-execute\""
    );
    assert_eq!(
        wrong("name = \"Tools.PreExecute\", mode = Emit"),
        "`Tools.PreExecute` is no event name: use lower-case letters, digits and `-`, in two segments or more separated by `/`, as in \"tools/pre-execute\""
    );
    // One segment is no name, so neither is what could be made of it.
    assert_eq!(
        wrong("name = \"Bad Name\", mode = Emit"),
        "`Bad Name` is no event name: use lower-case letters, digits and `-`, in two segments or more separated by `/`, as in \"tools/pre-execute\""
    );
    assert_eq!(wrong("name = tools"), "`name` is a string, as in `name = \"tools/pre-execute\"`");
    assert_eq!(wrong("name"), "`name` needs a value: it is a string, as in `name = \"tools/pre-execute\"`");
}

#[test]
fn modes_are_checked() {
    assert_eq!(
        wrong("name = \"a/b\""),
        "an event needs a mode: `#[event(.., mode = Emit)]`; the modes are `Emit`, `Bail`, `Serial`, `Parallel` and `Waterfall`"
    );
    assert_eq!(
        wrong("name = \"a/b\", mode = waterfal"),
        "there is no mode `waterfal`: the modes are `Emit`, `Bail`, `Serial`, `Parallel` and `Waterfall`; did you mean `Waterfall`?"
    );
    assert_eq!(
        wrong("name = \"a/b\", mode = Broadcast"),
        "there is no mode `Broadcast`: the modes are `Emit`, `Bail`, `Serial`, `Parallel` and `Waterfall`"
    );
    assert_eq!(
        wrong("name = \"a/b\", mode = \"Emit\""),
        "`mode` is one of `Emit`, `Bail`, `Serial`, `Parallel` and `Waterfall`, as in `mode = Emit`"
    );
}

#[test]
fn outputs_are_checked() {
    for mode in ["Bail", "Serial", "Waterfall"] {
        assert_eq!(
            wrong(&format!("name = \"a/b\", mode = {mode}")),
            format!(
                "a `{mode}` event needs `output = Type`: listeners answer it, and the dispatch returns their answer"
            )
        );
    }
    for mode in ["Emit", "Parallel"] {
        assert_eq!(
            wrong(&format!("name = \"a/b\", mode = {mode}, output = u8")),
            format!(
                "a `{mode}` event has no output, for its listeners answer nothing: remove `output`, or take a mode that has answers (`Bail`, `Serial` or `Waterfall`)"
            )
        );
    }
    assert_eq!(
        wrong("name = \"a/b\", mode = Bail, output = \"u8\""),
        "`output` is the type listeners answer with, as in `output = Decision`"
    );
}

#[test]
fn subjects_are_checked() {
    assert_eq!(
        wrong("name = \"a/b\", mode = Emit, subject = exec.agent"),
        "the subject comes from the payload: name a field, or write an expression over `self`, as in `subject = self.exec.agent`"
    );
    assert_eq!(
        wrong("name = \"a/b\", mode = Emit, subject"),
        "`subject` needs a value: it is a field, as in `subject = agent`, or an expression over `self`"
    );
    assert_eq!(
        declared("#[event(name = \"a/b\", mode = Emit, subject = agent)] enum E { A }"),
        "an enum has no field `agent`: write an expression over `self`, as in `subject = self.agent()`"
    );
    assert_eq!(
        declared("#[event(name = \"a/b\", mode = Emit)] struct S { #[event(subject)] agent: ScopeKey }"),
        "`#[event(..)]` belongs on the type; a field becomes the subject by `subject = field` there"
    );
}

#[test]
fn ordered_is_checked() {
    assert_eq!(
        wrong("name = \"a/b\", mode = Parallel, ordered"),
        "`ordered` is for `Emit` events: whoever dispatches a `Parallel` event waits for its end, so nothing can be queued behind it"
    );
    assert_eq!(
        wrong("name = \"a/b\", mode = Emit, ordered = true"),
        "`ordered` is a flag: write `ordered` alone, or leave it out"
    );
}

#[test]
fn keys_are_checked() {
    assert_eq!(
        wrong("name = \"a/b\", mode = Emit, subjet = agent"),
        "an event has no key `subjet`: the keys are `name`, `mode`, `output`, `subject`, `ordered`, `view`, `output_view` and `schema`; did you mean `subject`?"
    );
    assert_eq!(
        wrong("type = u8"),
        "an event has no key `type`: the keys are `name`, `mode`, `output`, `subject`, `ordered`, `view`, `output_view` and `schema`"
    );
    assert_eq!(wrong("name = \"a/b\", name = \"a/c\""), "`name` is given twice: keep one of them");
    assert_eq!(wrong("ordered, ordered"), "`ordered` is given twice: keep one of them");
}

#[test]
fn shapes_are_checked() {
    let generic =
        "an event is one type: remove the parameters, own the data, and declare one event for each payload type";
    assert_eq!(declared("#[event(name = \"a/b\", mode = Emit)] struct S<T>(T);"), generic);
    assert_eq!(declared("#[event(name = \"a/b\", mode = Emit)] struct S<'a>(&'a str);"), generic);
    assert_eq!(
        declared("#[event(name = \"a/b\", mode = Emit)] union U { a: u8 }"),
        "a union cannot be an event: declare a struct or an enum"
    );
}

#[test]
fn everything_wrong_is_said_at_once() {
    assert_eq!(wrong("name = \"A\", mode = Bail, ordered").lines().count(), 3);
    assert_eq!(declared("struct S;").lines().count(), 2);
}

//! What the attributes write, and what they say about wrong declarations.

use super::*;

fn squeezed(output: &TokenStream) -> String {
    output.to_string().replace([' ', '\n'], "")
}

fn expanded(source: &str) -> String {
    let source = source.parse().expect("the test's source is Rust");
    let output = expand_service(quote!("tools"), source).expect("the declaration is right");
    syn::parse2::<syn::File>(output.clone()).expect("the expansion is Rust");
    squeezed(&output)
}

fn named(args: &str) -> String {
    let args = args.parse().expect("the test's source is Rust");
    expand_service(
        args,
        quote!(
            trait Tools {}
        ),
    )
    .expect_err("the name is wrong")
    .to_string()
}

/// All messages about a trait.
fn declared(source: &str) -> String {
    let source = source.parse().expect("the test's source is Rust");
    let error = expand_service(quote!("tools"), source).expect_err("the declaration is wrong");
    error.into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n")
}

/// All messages about a trait with this method.
fn wrong(method: &str) -> String {
    declared(&format!("trait Tools {{ {method} }}"))
}

#[test]
fn a_service_is_expanded() {
    let output = expanded(
        "/// Runs tools.
        pub trait Tools {
            /// Docs.
            async fn run(&self, name: &str, (a, b): (u8, u8), _: u8) -> Result<String, ToolsError>;
            #[cfg(unix)]
            fn list(&self) -> Result<Vec<String>, ServiceError>;
            fn twice(&self) -> Result<u32, ServiceError> { Ok(2) }
        }",
    );
    for part in [
        "#[::linn_bus::__private::async_trait::async_trait]#[doc=r\"Runstools.\"]pubtraitTools:::core::marker::Send+::core::marker::Sync+'static{",
        "pubstruct__ToolsGuard(::linn_bus::__private::ServiceCell<dynTools>);#[::linn_bus::__private::async_trait::async_trait]implToolsfor__ToolsGuard{",
        "asyncfnrun(&self,name:&str,__arg2:(u8,u8),__arg3:u8)->Result<String,ToolsError>{let__call=self.0.enter(\"run\")?;let__target=__call.target();__call.guard(asyncmove{__target.run(name,__arg2,__arg3).await}).await}",
        "#[cfg(unix)]fnlist(&self)->Result<Vec<String>,ServiceError>{let__call=self.0.enter(\"list\")?;__call.run(||__call.target().list())}",
        "fntwice(&self)->Result<u32,ServiceError>{let__call",
        "unsafeimpl::linn_bus::ServicefordynTools{constNAME:&'staticstr=\"tools\";typeGuard=__ToolsGuard;",
        "docs:\"Runstools.\"",
        "methods:&[\"run\",#[cfg(unix)]\"list\",\"twice\"]",
        "ServiceRegistration(<dynToolsas::linn_bus::Service>::__descriptor)",
    ] {
        assert!(output.replace("doc=\"", "doc=r\"").contains(part), "no {part} in {output}");
    }
}

#[test]
fn a_service_without_async_methods_has_no_boxes() {
    let output = expanded("trait Tools: Send + Debug { fn list(&self) -> Result<(), E>; }");
    assert!(!output.contains("async_trait"), "{output}");
    assert!(output.starts_with("traitTools:Send+Debug+::core::marker::Sync+'static{"), "{output}");
}

#[test]
fn what_can_be_forwarded_is_allowed() {
    for method in [
        "fn f<'a>(&self, x: &'a str) -> Result<&'a str, E>;",
        "fn f<'a, 'b: 'a>(&'b self, x: &'a str) -> Result<&'a str, E> where 'b: 'a;",
        "fn f(&self) -> Result<&'static str, E>;",
        "fn f(&self) -> crate::error::Result<()>;",
        "fn f(&self) -> Result<Box<dyn Fn(&str) -> &str + Send>, E>;",
        "fn f(&self) -> Result<fn(&str) -> &str, E>;",
        "fn f(&self, seen: &mut dyn FnMut(&str)) -> Result<(), E>;",
    ] {
        expanded(&format!("trait Tools {{ {method} }}"));
    }
}

#[test]
fn names_are_checked() {
    for name in ["tools", "linn.tools", "llm/open-ai.v2"] {
        expand_service(
            quote!(#name),
            quote!(
                trait Tools {}
            ),
        )
        .expect("the name is right");
    }
    let missing = "a service needs its name: `#[service(\"tools\")]`";
    assert_eq!(named(""), missing);
    assert_eq!(named("tools"), missing);
    assert_eq!(named("name = \"tools\""), missing);
    assert_eq!(
        named("\"Tools\""),
        "`Tools` is no service name: use lower-case letters, digits and `-`, in segments separated by `.` or `/`, as in \"tools\""
    );
    assert_eq!(
        named("\"linn.ShellTools\""),
        "`linn.ShellTools` is no service name: use lower-case letters, digits and `-`, in segments separated by `.` or `/`, as in \"linn.shell-tools\""
    );
}

#[test]
fn receivers_are_checked() {
    for inputs in ["", "self", "mut self", "&mut self", "self: Arc<Self>", "self: &Self", "x: u8"] {
        assert_eq!(
            wrong(&format!("fn f({inputs}) -> Result<(), E>;")),
            "a service is shared by everyone who needs it: take `&self`",
            "{inputs}"
        );
    }
}

#[test]
fn methods_are_not_generic() {
    let parameter = "a service is called through `dyn Trait`, so its methods have no type parameters: take a concrete type or a `&dyn Trait`";
    assert_eq!(wrong("fn f<T>(&self, x: T) -> Result<(), E>;"), parameter);
    assert_eq!(wrong("fn f<const N: usize>(&self) -> Result<(), E>;"), parameter);
    let argument = "a service is called through `dyn Trait`, so its arguments are no `impl Trait`: take a concrete type or a `&dyn Trait`";
    assert_eq!(wrong("fn f(&self, x: impl Fn()) -> Result<(), E>;"), argument);
    assert_eq!(wrong("async fn f(&self, x: &[impl AsRef<str>]) -> Result<(), E>;"), argument);
    assert_eq!(
        wrong("fn f(&self) -> Result<(), E> where Self: Sized;"),
        "a service is called through `dyn Trait`, so all of its methods have to be there: remove the bound"
    );
}

#[test]
fn results_are_checked() {
    for output in
        ["", "-> u8", "-> Option<Result<(), E>>", "-> (Result<(), E>,)", "-> impl Future<Output = Result<(), E>>"]
    {
        assert_eq!(
            wrong(&format!("fn f(&self) {output};")),
            "every method of a service returns a `Result` whose error is `From<ServiceError>`: a provider may panic or be gone"
        );
    }
    for (lifetimes, receiver, output) in [
        ("", "&self", "&str"),
        ("", "&self", "Cow<'_, str>"),
        ("<'a>", "&'a self", "&'a str"),
        ("", "&self", "Vec<(u8, &str)>"),
    ] {
        assert_eq!(
            wrong(&format!("async fn f{lifetimes}({receiver}) -> Result<{output}, E>;")),
            "a result outlives the provider it comes from: return owned data, or an `Arc`, instead of a borrow from the service"
        );
    }
}

#[test]
fn methods_are_plain() {
    assert_eq!(wrong("unsafe fn f(&self) -> Result<(), E>;"), "a method of a service is safe to call: remove `unsafe`");
    assert_eq!(
        wrong("const fn f(&self) -> Result<(), E>;"),
        "a method of a service is called at run time: remove `const`"
    );
    assert_eq!(
        wrong("extern \"C\" fn f(&self) -> Result<(), E>;"),
        "a method of a service has Rust's own calling convention: remove `extern`"
    );
}

#[test]
fn traits_are_checked() {
    let generic = "a service is one type, `dyn Trait`: remove the parameters, and declare one service for each type they stood for";
    assert_eq!(declared("trait Tools<T> {}"), generic);
    assert_eq!(declared("trait Tools<'a> {}"), generic);
    assert_eq!(declared("unsafe trait Tools {}"), "a service is safe to provide: remove `unsafe`");
    assert_eq!(declared("auto trait Tools {}"), "an auto trait has no methods to provide: remove `auto`");
    assert_eq!(
        wrong("type Item;"),
        "a service is used as `dyn Trait`, so it has no associated types: name the type in the methods"
    );
    assert_eq!(wrong("const N: u8;"), "a service is used as `dyn Trait`, so it has no constants: make it a method");
    assert_eq!(wrong("methods!();"), "a service consists of methods, written out");
    let elsewhere = "`#[service(..)]` goes on the trait of a service; its implementations have `#[provider]`";
    assert_eq!(declared("impl Tools for Shell {}"), elsewhere);
    assert_eq!(declared("struct Tools;"), elsewhere);
}

#[test]
fn everything_wrong_is_said_at_once_and_the_trait_is_kept() {
    let source = "trait Tools { fn a(&mut self) -> u8; fn b() -> Result<(), E>; }";
    assert_eq!(declared(source).lines().count(), 3);
    let output = service(quote!("tools"), source.parse().expect("the test's source is Rust"));
    assert!(squeezed(&output).ends_with(&source.replace(' ', "")));
}

#[test]
fn a_provider_gets_boxes_for_its_async_methods() {
    let sync = quote!(impl Tools for Shell { fn list(&self) -> Result<(), E> { Ok(()) } });
    assert_eq!(squeezed(&provider(TokenStream::new(), sync.clone())), squeezed(&sync));
    let asynchronous = quote!(impl Tools for Shell { async fn run(&self) -> Result<(), E> { Ok(()) } });
    assert_eq!(
        squeezed(&provider(TokenStream::new(), asynchronous.clone())),
        format!("#[::linn_bus::__private::async_trait::async_trait]{}", squeezed(&asynchronous))
    );
}

#[test]
fn providers_are_checked() {
    let error = |args, item| expand_provider(&args, item).expect_err("the declaration is wrong").to_string();
    let instead = "`#[provider]` goes on the `impl` of a service's trait, as in `impl Tools for Shell`";
    assert_eq!(error(quote!(), quote!(impl Shell {})), instead);
    assert_eq!(
        error(
            quote!(),
            quote!(
                struct Shell;
            )
        ),
        instead
    );
    assert_eq!(
        error(quote!("tools"), quote!(impl Tools for Shell {})),
        "`#[provider]` takes no arguments: the trait names the service"
    );
}

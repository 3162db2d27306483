//! What the trait of a service must look like.

use syn::visit::{self, Visit};
use syn::{FnArg, GenericParam, ItemTrait, Lifetime, ReturnType, Signature, TraitItem, Type, WherePredicate};

use crate::problems::Problems;

/// Refuses what cannot be called through `dyn Trait` and a guard.
pub(super) fn service(item: &ItemTrait) -> syn::Result<()> {
    let mut problems = Problems::default();
    if !item.generics.params.is_empty() {
        problems.on(
            &item.generics,
            "a service is one type, `dyn Trait`: remove the parameters, and declare one service for each type they stood for",
        );
    }
    if let Some(token) = &item.unsafety {
        problems.on(token, "a service is safe to provide: remove `unsafe`");
    }
    if let Some(token) = &item.auto_token {
        problems.on(token, "an auto trait has no methods to provide: remove `auto`");
    }
    for item in &item.items {
        match item {
            TraitItem::Fn(method) => check_method(&method.sig, &mut problems),
            TraitItem::Type(item) => problems.on(
                item,
                "a service is used as `dyn Trait`, so it has no associated types: name the type in the methods",
            ),
            TraitItem::Const(item) => {
                problems.on(item, "a service is used as `dyn Trait`, so it has no constants: make it a method");
            }
            other => problems.on(other, "a service consists of methods, written out"),
        }
    }
    problems.finish()
}

fn check_method(sig: &Signature, problems: &mut Problems) {
    check_receiver(sig, problems);
    for param in &sig.generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            problems.on(
                param,
                "a service is called through `dyn Trait`, so its methods have no type parameters: take a concrete type or a `&dyn Trait`",
            );
        }
    }
    for predicate in sig.generics.where_clause.iter().flat_map(|clause| &clause.predicates) {
        if matches!(predicate, WherePredicate::Type(_)) {
            problems.on(
                predicate,
                "a service is called through `dyn Trait`, so all of its methods have to be there: remove the bound",
            );
        }
    }
    for arg in &sig.inputs {
        if let FnArg::Typed(arg) = arg {
            let mut finder = ImplTrait(problems);
            finder.visit_type(&arg.ty);
        }
    }
    if let Some(token) = &sig.unsafety {
        problems.on(token, "a method of a service is safe to call: remove `unsafe`");
    }
    if let Some(token) = &sig.constness {
        problems.on(token, "a method of a service is called at run time: remove `const`");
    }
    if let Some(abi) = &sig.abi {
        problems.on(abi, "a method of a service has Rust's own calling convention: remove `extern`");
    }
    check_output(sig, problems);
}

fn check_receiver(sig: &Signature, problems: &mut Problems) {
    const MESSAGE: &str = "a service is shared by everyone who needs it: take `&self`";
    match sig.receiver() {
        Some(receiver) => {
            let is_plain =
                receiver.reference.is_some() && receiver.mutability.is_none() && receiver.colon_token.is_none();
            if !is_plain {
                problems.on(receiver, MESSAGE);
            }
        }
        None => problems.on(&sig.ident, MESSAGE),
    }
}

fn check_output(sig: &Signature, problems: &mut Problems) {
    const MESSAGE: &str = "every method of a service returns a `Result` whose error is `From<ServiceError>`: a provider may panic or be gone";
    let ReturnType::Type(_, output) = &sig.output else {
        problems.on(&sig.ident, MESSAGE);
        return;
    };
    if !is_result(output) {
        problems.on(output, MESSAGE);
        return;
    }
    let own = sig.receiver().and_then(|receiver| receiver.lifetime());
    let mut finder = Borrowed { own, found: None };
    finder.visit_type(output);
    if let Some(span) = finder.found {
        problems.at(
            span,
            "a result outlives the provider it comes from: return owned data, or an `Arc`, instead of a borrow from the service",
        );
    }
}

fn is_result(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Result"),
        Type::Group(group) => is_result(&group.elem),
        Type::Paren(paren) => is_result(&paren.elem),
        _ => false,
    }
}

/// Reports `impl Trait` anywhere in an argument's type.
struct ImplTrait<'a>(&'a mut Problems);

impl Visit<'_> for ImplTrait<'_> {
    fn visit_type_impl_trait(&mut self, ty: &syn::TypeImplTrait) {
        self.0.on(
            ty,
            "a service is called through `dyn Trait`, so its arguments are no `impl Trait`: take a concrete type or a `&dyn Trait`",
        );
    }
}

/// Finds the first borrow from `&self` in a return type: an elided lifetime, or the lifetime that `self` has.
struct Borrowed<'a> {
    own: Option<&'a Lifetime>,
    found: Option<proc_macro2::Span>,
}

impl Visit<'_> for Borrowed<'_> {
    fn visit_type_reference(&mut self, ty: &syn::TypeReference) {
        if ty.lifetime.is_none() {
            self.found.get_or_insert(ty.and_token.span);
        }
        visit::visit_type_reference(self, ty);
    }

    fn visit_lifetime(&mut self, lifetime: &Lifetime) {
        if lifetime.ident == "_" || Some(lifetime) == self.own {
            self.found.get_or_insert(lifetime.span());
        }
    }

    // Elided lifetimes inside of `Fn(&str) -> &str` and of `fn(&str)` are those types' own.
    fn visit_parenthesized_generic_arguments(&mut self, _: &syn::ParenthesizedGenericArguments) {}
    fn visit_type_bare_fn(&mut self, _: &syn::TypeBareFn) {}
}

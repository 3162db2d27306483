//! `#[service("name")]` on a trait, and `#[provider]` on its `impl`.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::{
    Attribute, FnArg, ImplItem, ItemImpl, ItemTrait, LitStr, Pat, PatType, PathArguments, PathSegment, ReturnType,
    TraitItem, TraitItemFn, Type, TypeParamBound, parse_quote,
};

use crate::path;
use crate::problems::{Problems, as_generated, pointing_at};
use crate::text::{self, NameRule};

mod check;

const NAME: NameRule = NameRule {
    of: "service",
    separators: &['.', '/'],
    words: "use lower-case letters, digits and `-`, in segments separated by `.` or `/`",
    n_least: 1,
    whole: &[],
    example: "tools",
};

/// Expands `#[service(..)]`; a wrong trait is kept, so that its errors are the only ones about it.
pub(crate) fn service(args: TokenStream, item: TokenStream) -> TokenStream {
    expand_service(args, item.clone()).unwrap_or_else(|error| {
        let error = error.to_compile_error();
        let bus = path::bus();
        let boxes =
            syn::parse2::<ItemTrait>(item.clone()).is_ok_and(|item| has_async(&item)).then(|| async_trait(&bus));
        quote!(#error #boxes #item)
    })
}

/// Expands `#[provider]`; a wrong block is kept.
pub(crate) fn provider(args: TokenStream, item: TokenStream) -> TokenStream {
    expand_provider(&args, item.clone()).unwrap_or_else(|error| {
        let error = error.to_compile_error();
        quote!(#error #item)
    })
}

fn expand_provider(args: &TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let mut problems = Problems::default();
    if !args.is_empty() {
        problems.on(args, "`#[provider]` takes no arguments: the trait names the service");
    }
    let instead = "`#[provider]` goes on the `impl` of a service's trait, as in `impl Tools for Shell`";
    match syn::parse2::<ItemImpl>(item.clone()) {
        Ok(block) if block.trait_.is_some() => {
            problems.finish()?;
            let is_async = |item: &ImplItem| matches!(item, ImplItem::Fn(method) if method.sig.asyncness.is_some());
            let bus = path::bus();
            let boxes = block.items.iter().any(is_async).then(|| async_trait(&bus));
            Ok(quote!(#boxes #item))
        }
        Ok(block) => {
            problems.on(&block.self_ty, instead);
            problems.finish().and(Ok(item))
        }
        // Only the shape is of interest: what is wrong inside of an `impl` is rustc's to say.
        Err(_) if item.clone().into_iter().any(|token| token.to_string() == "impl") => problems.finish().and(Ok(item)),
        Err(_) => {
            problems.on(&item, instead);
            problems.finish().and(Ok(item))
        }
    }
}

fn expand_service(args: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let digest = Literal::u64_unsuffixed(text::digest(quote!(#args; #item)));
    let name = name(args)?;
    let mut item: ItemTrait = syn::parse2(item.clone()).map_err(|error| not_a_trait(error, &item))?;
    check::service(&item)?;

    let bus = path::bus();
    let boxes = has_async(&item).then(|| async_trait(&bus));
    let ty = item.ident.clone();
    let ty_name = ty.unraw().to_string();
    let guard = format_ident!("__{}Guard", ty.unraw());
    // The guard is as visible as the trait, but lints about that are about the trait alone.
    let vis = as_generated(item.vis.to_token_stream());
    let docs = text::docs(&item.attrs);
    let cfgs: Vec<_> = cfgs(&item.attrs).cloned().collect();
    let methods: Vec<_> = item
        .items
        .iter()
        .filter_map(|item| match item {
            TraitItem::Fn(method) => Some(method),
            _ => None,
        })
        .collect();
    let forwards = methods.iter().map(|method| forward(method));
    let names = methods.iter().map(|method| {
        let cfgs = self::cfgs(&method.attrs);
        let name = method.sig.ident.unraw().to_string();
        quote!(#(#cfgs)* #name)
    });
    // Forwarding is no use of a deprecated method; the attribute is written only where it is needed, as it cannot stand under `forbid`.
    let deprecated = methods
        .iter()
        .any(|method| method.attrs.iter().any(|attr| attr.path().is_ident("deprecated")))
        .then(|| quote!(#[allow(deprecated, reason = "the guard forwards every method")]));

    let support = quote! {
        #(#cfgs)*
        const _: () = {
            #[doc(hidden)]
            #vis struct #guard(#bus::__private::ServiceCell<dyn #ty>);

            #deprecated
            #boxes
            impl #ty for #guard {
                #(#forwards)*
            }

            // SAFETY: name, descriptor and guard are those of this very trait.
            unsafe impl #bus::Service for dyn #ty {
                const NAME: &'static str = #name;
                type Guard = #guard;

                fn __descriptor() -> &'static #bus::ServiceDescriptor {
                    static DESCRIPTOR: #bus::ServiceDescriptor =
                        #bus::__private::service_descriptor::<dyn #ty>(#bus::__private::ServiceParts {
                            name: #name,
                            docs: #docs,
                            type_path: ::core::concat!(::core::module_path!(), "::", #ty_name),
                            krate: ::core::env!("CARGO_PKG_NAME"),
                            version: ::core::env!("CARGO_PKG_VERSION"),
                            tokens: #digest,
                            line: ::core::line!(),
                            column: ::core::column!(),
                            methods: &[#(#names),*],
                        });
                    &DESCRIPTOR
                }

                fn __guard(cell: #bus::__private::ServiceCell<dyn #ty>) -> Self::Guard {
                    #guard(cell)
                }

                fn __as_dyn(guard: &Self::Guard) -> &Self {
                    guard
                }
            }

            #bus::__private::inventory::submit! {
                #bus::__private::ServiceRegistration(<dyn #ty as #bus::Service>::__descriptor)
            }
        };
    };
    add_supertraits(&mut item);
    Ok(quote!(#boxes #item #support))
}

/// One method of the guard: enter the service, then forward the call to the provider.
fn forward(method: &TraitItemFn) -> TokenStream {
    let cfgs = cfgs(&method.attrs);
    let mut sig = method.sig.clone();
    let mut args = Vec::new();
    for (index, input) in sig.inputs.iter_mut().enumerate() {
        if let FnArg::Typed(arg) = input {
            let name = plain_name(arg, index);
            arg.attrs.retain(|attr| attr.path().is_ident("cfg"));
            let cfgs = &arg.attrs;
            args.push(quote!(#(#cfgs)* #name));
            arg.pat = parse_quote!(#name);
        }
    }
    let name = &sig.ident;
    let label = name.unraw().to_string();
    // An error type that is not `From<ServiceError>` is reported where the method names it.
    let at = error_span(&sig.output);
    let body = if sig.asyncness.is_some() {
        // The call itself happens inside of the guarded future as well: a provider may panic before it returns its own.
        quote_spanned! {at=>
            let __call = self.0.enter(#label)?;
            let __target = __call.target();
            __call.guard(async move { __target.#name(#(#args),*).await }).await
        }
    } else {
        quote_spanned! {at=>
            let __call = self.0.enter(#label)?;
            __call.run(|| __call.target().#name(#(#args),*))
        }
    };
    quote!(#(#cfgs)* #sig { #body })
}

/// Where a return type names its error: the second argument of `Result`, or the name of an alias.
fn error_span(output: &ReturnType) -> Span {
    let ReturnType::Type(_, ty) = output else {
        return Span::call_site();
    };
    let Type::Path(path) = &**ty else {
        return pointing_at(ty);
    };
    match path.path.segments.last() {
        Some(PathSegment { arguments: PathArguments::AngleBracketed(args), .. }) if args.args.len() > 1 => {
            pointing_at(&args.args[1])
        }
        Some(last) => pointing_at(&last.ident),
        None => pointing_at(ty),
    }
}

/// The argument's name in the guard; patterns, `_` and unused arguments get a fresh one.
fn plain_name(arg: &PatType, index: usize) -> Ident {
    let span = pointing_at(&arg.pat);
    match &*arg.pat {
        Pat::Ident(pat) if pat.subpat.is_none() && !pat.ident.to_string().starts_with('_') => {
            let mut name = pat.ident.clone();
            name.set_span(span);
            name
        }
        _ => Ident::new(&format!("__arg{index}"), span),
    }
}

/// Adds `Send + Sync + 'static` as far as the author has not written them.
fn add_supertraits(item: &mut ItemTrait) {
    let wanted: [TypeParamBound; 3] =
        [parse_quote!(::core::marker::Send), parse_quote!(::core::marker::Sync), parse_quote!('static)];
    for (bound, short) in wanted.into_iter().zip(["Send", "Sync", "'static"]) {
        if !item.supertraits.iter().any(|known| known.to_token_stream().to_string() == short) {
            item.supertraits.push(bound);
        }
    }
    item.colon_token.get_or_insert_with(Default::default);
}

fn name(args: TokenStream) -> syn::Result<LitStr> {
    let missing = "a service needs its name: `#[service(\"tools\")]`";
    if args.is_empty() {
        return Err(syn::Error::new(Span::call_site(), missing));
    }
    let name: LitStr = syn::parse2(args).map_err(|error| syn::Error::new(error.span(), missing))?;
    match NAME.objection(&name.value()) {
        None => Ok(name),
        Some(message) => Err(syn::Error::new(name.span(), message)),
    }
}

fn not_a_trait(error: syn::Error, item: &TokenStream) -> syn::Error {
    if item.clone().into_iter().any(|token| token.to_string() == "trait") {
        return error;
    }
    let message = "`#[service(..)]` goes on the trait of a service; its implementations have `#[provider]`";
    syn::Error::new_spanned(item, message)
}

fn has_async(item: &ItemTrait) -> bool {
    item.items.iter().any(|item| matches!(item, TraitItem::Fn(method) if method.sig.asyncness.is_some()))
}

fn async_trait(bus: &TokenStream) -> TokenStream {
    quote!(#[#bus::__private::async_trait::async_trait])
}

fn cfgs(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("cfg"))
}

#[cfg(test)]
mod tests;

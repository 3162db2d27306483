//! `#[derive(Event)]`.

use proc_macro2::{Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Data, DeriveInput, Expr, Lit, LitStr, Path, Token, Type, parse_quote};

use crate::path;
use crate::problems::{Problems, pointing_at};
use crate::text::{self, NameRule};

const KEYS: [&str; 8] = ["name", "mode", "output", "subject", "ordered", "view", "output_view", "schema"];
const MODES: [&str; 5] = ["Emit", "Bail", "Serial", "Parallel", "Waterfall"];
const NAME: NameRule = NameRule {
    of: "event",
    separators: &['/'],
    words: "use lower-case letters, digits and `-`, in two segments or more separated by `/`",
    n_least: 2,
    // The end of the program has no area; the name is as old as the family of these events.
    whole: &["exit"],
    example: "tools/pre-execute",
};

/// Expands the derive, or says what is wrong with the declaration.
pub(crate) fn derive(input: TokenStream) -> syn::Result<TokenStream> {
    let digest = Literal::u64_unsuffixed(text::digest(input.clone()));
    let input: DeriveInput = syn::parse2(input)?;
    let Declaration { name, mode, output, subject, ordered, view, output_view, schema } = Declaration::read(&input)?;

    let bus = path::bus();
    let ty = &input.ident;
    let docs = text::docs(&input.attrs);
    let ty_name = ty.unraw().to_string();
    let output_text = output.as_ref().map_or_else(|| "()".to_owned(), |it| text::type_text(it.to_token_stream()));
    // Smaller than `()`: an answer that cannot be takes no room beside a failure.
    let output = output.unwrap_or_else(|| parse_quote!(::core::convert::Infallible));
    let is_ordered = ordered.is_some();
    let scoped = subject.is_some();
    let scope = if scoped { quote!(Subject) } else { quote!(Everybody) };

    // The queue of an ordered event holds copies; the span shows where `Clone` is asked for.
    let queued = ordered.map(|flag| {
        quote_spanned! {Span::call_site().located_at(flag)=>
            fn __queued(&self) -> ::core::option::Option<Self> {
                ::core::option::Option::Some(<Self as ::core::clone::Clone>::clone(self))
            }
        }
    });
    let keep = (mode == "Waterfall").then(|| {
        quote! {
            fn __keep(
                output: &<Self as #bus::Event>::Output,
            ) -> ::core::option::Option<#bus::__private::Same<<Self as #bus::Event>::Output>> {
                #[allow(unused_imports, reason = "the compiler takes one of them")]
                use #bus::__private::{KeepEqual as _, KeepNothing as _};
                (&#bus::__private::Keep::<#output>::NEW).keep(output)
            }
        }
    });
    let (has_view, has_output_view, has_schema) = (view.is_some(), output_view.is_some(), schema.is_some());
    let view = view.map(|view| {
        let shown = view.shown(&bus, &quote!(self));
        let body = quote!(fn __view(&self) -> ::core::option::Option<#bus::__private::Shown> { #shown });
        if_json(&bus, "view", view.span, &body)
    });
    let output_view = output_view.map(|view| {
        let shown = view.shown(&bus, &quote!(output));
        let body = quote! {
            fn __output_view(output: &<Self as #bus::Event>::Output) -> ::core::option::Option<#bus::__private::Shown> {
                #shown
            }
        };
        if_json(&bus, "output_view", view.span, &body)
    });
    let schema = schema.map(|flag| {
        let made = quote_spanned!(Span::call_site().located_at(flag)=> #bus::__private::schema_of::<Self>());
        let body = quote! {
            fn __schema() -> ::core::option::Option<#bus::__private::serde_json::Value> { #made }
        };
        if_json(&bus, "schema", flag, &body)
    });
    let has_subject = subject.map(|subject| {
        let subject_of = quote_spanned! {pointing_at(&subject)=>
            #bus::__private::SubjectOf::subject_of(&(#subject))
        };
        quote! {
            #[automatically_derived]
            impl #bus::HasSubject for #ty {
                fn subject(&self) -> ::core::option::Option<&#bus::ScopeKey> {
                    #subject_of
                }
            }
        }
    });

    Ok(quote! {
        const _: () = {
            // SAFETY: the slot is a static of this very impl, so no other type has it.
            #[automatically_derived]
            unsafe impl #bus::Event for #ty {
                const NAME: &'static str = #name;
                const ORDERED: bool = #is_ordered;
                type Mode = #bus::#mode;
                type Output = #output;
                type Scope = #bus::#scope;

                fn __slot() -> &'static #bus::__private::EventSlot {
                    static DESCRIPTOR: #bus::EventDescriptor =
                        #bus::__private::event_descriptor::<#ty>(#bus::__private::EventParts {
                            name: #name,
                            mode: #bus::ModeName::#mode,
                            output: #output_text,
                            scoped: #scoped,
                            ordered: #is_ordered,
                            has_view: #has_view,
                            has_output_view: #has_output_view,
                            has_schema: #has_schema,
                            docs: #docs,
                            type_path: ::core::concat!(::core::module_path!(), "::", #ty_name),
                            krate: ::core::env!("CARGO_PKG_NAME"),
                            version: ::core::env!("CARGO_PKG_VERSION"),
                            tokens: #digest,
                            line: ::core::line!(),
                            column: ::core::column!(),
                        });
                    static SLOT: #bus::__private::EventSlot = #bus::__private::EventSlot::of::<#ty>(&DESCRIPTOR);
                    &SLOT
                }

                #queued
                #keep
                #view
                #output_view
                #schema
            }

            #has_subject

            #bus::__private::inventory::submit! {
                #bus::__private::EventRegistration(<#ty as #bus::Event>::__slot)
            }
        };
    })
}

/// What an event's attribute says, checked.
struct Declaration {
    name: LitStr,
    mode: Ident,
    /// None where the mode has no answers.
    output: Option<Type>,
    /// An expression over `self`.
    subject: Option<TokenStream>,
    /// Where the flag stands.
    ordered: Option<Span>,
    view: Option<View>,
    output_view: Option<View>,
    /// Where the flag stands.
    schema: Option<Span>,
}

/// How a payload or an answer is shown as JSON.
struct View {
    /// Where the key stands.
    span: Span,
    /// A function of a reference to what is shown; by its `Serialize` without one.
    by: Option<Path>,
}

impl View {
    /// The expression that shows `what`, a reference.
    fn shown(&self, bus: &TokenStream, what: &TokenStream) -> TokenStream {
        match &self.by {
            Some(path) => quote_spanned!(pointing_at(path)=> #bus::__private::shown_by(#path, #what)),
            None => quote_spanned! {Span::call_site().located_at(self.span)=>
                #bus::__private::serialized(#what)
            },
        }
    }
}

/// Items that the bus takes with its feature `json` only, and says so otherwise.
fn if_json(bus: &TokenStream, key: &str, span: Span, items: &TokenStream) -> TokenStream {
    quote_spanned!(Span::call_site().located_at(span)=> #bus::__private::if_json! { #key #items })
}

impl Declaration {
    fn read(input: &DeriveInput) -> syn::Result<Self> {
        let mut problems = Problems::default();
        check_shape(input, &mut problems);
        problems.finish()?;

        let mut keys = Keys::default();
        for attr in input.attrs.iter().filter(|attr| attr.path().is_ident("event")) {
            attr.parse_args_with(|input: ParseStream<'_>| keys.read(input))?;
        }
        keys.check(input)
    }
}

/// The keys of `#[event(..)]` as they stand there.
#[derive(Default)]
struct Keys {
    name: Option<(Ident, LitStr)>,
    mode: Option<(Ident, Ident)>,
    output: Option<(Ident, Type)>,
    subject: Option<(Ident, Expr)>,
    ordered: Option<(Ident, ())>,
    view: Option<(Ident, Option<Path>)>,
    output_view: Option<(Ident, Option<Path>)>,
    schema: Option<(Ident, ())>,
}

impl Keys {
    fn read(&mut self, input: ParseStream<'_>) -> syn::Result<()> {
        while !input.is_empty() {
            let key = input.call(Ident::parse_any)?;
            match key.to_string().as_str() {
                "name" => {
                    let value = value(input, &key, "is a string, as in `name = \"tools/pre-execute\"`")?;
                    set(&mut self.name, key, value)?;
                }
                "mode" => {
                    let words = format!("is one of {}, as in `mode = Emit`", text::list(&MODES));
                    let value = value(input, &key, &words)?;
                    set(&mut self.mode, key, value)?;
                }
                "output" => {
                    let value = value(input, &key, "is the type listeners answer with, as in `output = Decision`")?;
                    set(&mut self.output, key, value)?;
                }
                "subject" => {
                    let value =
                        value(input, &key, "is a field, as in `subject = agent`, or an expression over `self`")?;
                    set(&mut self.subject, key, value)?;
                }
                "ordered" => {
                    flag(input, &key)?;
                    set(&mut self.ordered, key, ())?;
                }
                "view" => {
                    let by = function(input, &key, "`fn(&Self) -> serde_json::Value`, as in `view = Self::shown`")?;
                    set(&mut self.view, key, by)?;
                }
                "output_view" => {
                    let words = "`fn(&Output) -> serde_json::Value`, as in `output_view = Decision::shown`";
                    let by = function(input, &key, words)?;
                    set(&mut self.output_view, key, by)?;
                }
                "schema" => {
                    flag(input, &key)?;
                    set(&mut self.schema, key, ())?;
                }
                other => {
                    let message = format!(
                        "an event has no key `{other}`: the keys are {}{}",
                        text::list(&KEYS),
                        text::did_you_mean(other, &KEYS)
                    );
                    return Err(syn::Error::new(key.span(), message));
                }
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(())
    }

    fn check(self, input: &DeriveInput) -> syn::Result<Declaration> {
        let mut problems = Problems::default();
        let ty = &input.ident;

        match &self.name {
            Some((_, name)) => {
                if let Some(message) = NAME.objection(&name.value()) {
                    problems.on(name, message);
                }
            }
            None => problems
                .on(ty, "an event needs a name: `#[event(name = \"area/name\", ..)]`, as in \"tools/pre-execute\""),
        }
        let mode = self.mode.as_ref().map(|(_, mode)| mode.to_string());
        match (&self.mode, mode.as_deref()) {
            (Some(_), Some("Bail" | "Serial" | "Waterfall")) if self.output.is_some() => {}
            (Some((_, ident)), Some(mode @ ("Bail" | "Serial" | "Waterfall"))) => problems.on(
                ident,
                format!(
                    "a `{mode}` event needs `output = Type`: listeners answer it, and the dispatch returns their answer"
                ),
            ),
            (_, Some(mode @ ("Emit" | "Parallel"))) => {
                if let Some((key, _)) = &self.output {
                    problems.on(
                        key,
                        format!(
                            "a `{mode}` event has no output, for its listeners answer nothing: remove `output`, or take a mode that has answers (`Bail`, `Serial` or `Waterfall`)"
                        ),
                    );
                }
            }
            (Some((_, ident)), Some(mode)) => problems.on(
                ident,
                format!(
                    "there is no mode `{mode}`: the modes are {}{}",
                    text::list(&MODES),
                    text::did_you_mean(mode, &MODES)
                ),
            ),
            _ => problems.on(
                ty,
                format!("an event needs a mode: `#[event(.., mode = Emit)]`; the modes are {}", text::list(&MODES)),
            ),
        }
        if let (Some((key, _)), Some(mode @ ("Emit" | "Parallel"))) = (&self.output_view, mode.as_deref()) {
            problems.on(key, format!("a `{mode}` event has no output to show: remove `output_view`"));
        }
        if let (Some((flag, ())), Some(mode)) = (&self.ordered, mode.as_deref())
            && mode != "Emit"
            && MODES.contains(&mode)
        {
            problems.on(
                flag,
                format!("`ordered` is for `Emit` events: whoever dispatches a `{mode}` event waits for its end, so nothing can be queued behind it"),
            );
        }
        let subject = self.subject.and_then(|(_, expr)| subject(expr, input, &mut problems));
        problems.finish()?;

        let ((_, name), (_, mode)) =
            self.name.zip(self.mode).expect("a missing name or mode is a problem, which returned above");
        Ok(Declaration {
            name,
            mode,
            output: self.output.map(|(_, output)| output),
            subject,
            ordered: self.ordered.map(|(flag, ())| flag.span()),
            view: self.view.map(|(key, by)| View { span: key.span(), by }),
            output_view: self.output_view.map(|(key, by)| View { span: key.span(), by }),
            schema: self.schema.map(|(flag, ())| flag.span()),
        })
    }
}

/// Refuses a value after a key that is a flag.
fn flag(input: ParseStream<'_>, key: &Ident) -> syn::Result<()> {
    if input.peek(Token![=]) {
        return Err(input.error(format!("`{key}` is a flag: write `{key}` alone, or leave it out")));
    }
    Ok(())
}

/// Reads the path after a key that may stand alone; `words` says what it leads to.
fn function(input: ParseStream<'_>, key: &Ident, words: &str) -> syn::Result<Option<Path>> {
    if !input.peek(Token![=]) {
        return Ok(None);
    }
    value(input, key, &format!("stands alone where the type is `Serialize`, or names a {words}")).map(Some)
}

/// Reads `= value` after a key; `words` says what the value of the key is.
fn value<T: Parse>(input: ParseStream<'_>, key: &Ident, words: &str) -> syn::Result<T> {
    if input.parse::<Option<Token![=]>>()?.is_none() {
        return Err(syn::Error::new(key.span(), format!("`{key}` needs a value: it {words}")));
    }
    input.parse().map_err(|error| syn::Error::new(error.span(), format!("`{key}` {words}")))
}

fn set<T>(place: &mut Option<(Ident, T)>, key: Ident, value: T) -> syn::Result<()> {
    if place.is_some() {
        return Err(syn::Error::new(key.span(), format!("`{key}` is given twice: keep one of them")));
    }
    *place = Some((key, value));
    Ok(())
}

/// The subject as an expression over `self`: a field's name stands for the field.
fn subject(expr: Expr, input: &DeriveInput, problems: &mut Problems) -> Option<TokenStream> {
    let member = match &expr {
        Expr::Path(path) => path.path.get_ident().filter(|ident| *ident != "self").map(ToTokens::to_token_stream),
        Expr::Lit(lit) => match &lit.lit {
            Lit::Int(index) if index.suffix().is_empty() => Some(index.to_token_stream()),
            _ => None,
        },
        _ => None,
    };
    if let Some(member) = member {
        if matches!(input.data, Data::Enum(_)) {
            problems.on(
                &member,
                format!("an enum has no field `{member}`: write an expression over `self`, as in `subject = self.{member}()`"),
            );
            return None;
        }
        return Some(quote_spanned!(pointing_at(&member)=> self.#member));
    }
    let mut mentions_self = false;
    let text = text::type_text(expr.to_token_stream());
    let respanned = respan_self(expr.to_token_stream(), &mut mentions_self);
    if !mentions_self {
        problems.on(
            &expr,
            format!("the subject comes from the payload: name a field, or write an expression over `self`, as in `subject = self.{text}`"),
        );
    }
    Some(respanned)
}

/// Lets every `self` resolve to the `self` that the macro writes, also when the declaration comes from a macro by example.
fn respan_self(tokens: TokenStream, found: &mut bool) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Ident(ident) if ident == "self" => {
                *found = true;
                TokenTree::Ident(Ident::new("self", Span::call_site().located_at(ident.span())))
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), respan_self(group.stream(), found));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            other => other,
        })
        .collect()
}

fn check_shape(input: &DeriveInput, problems: &mut Problems) {
    if !input.generics.params.is_empty() {
        problems.on(
            &input.generics,
            "an event is one type: remove the parameters, own the data, and declare one event for each payload type",
        );
    }
    let in_fields = match &input.data {
        Data::Struct(data) => data.fields.iter().flat_map(|field| &field.attrs).collect::<Vec<_>>(),
        Data::Enum(data) => data
            .variants
            .iter()
            .flat_map(|variant| variant.attrs.iter().chain(variant.fields.iter().flat_map(|field| &field.attrs)))
            .collect(),
        Data::Union(data) => {
            problems.at(data.union_token.span, "a union cannot be an event: declare a struct or an enum");
            Vec::new()
        }
    };
    for attr in in_fields {
        if attr.path().is_ident("event") {
            problems
                .on(attr, "`#[event(..)]` belongs on the type; a field becomes the subject by `subject = field` there");
        }
    }
}

#[cfg(test)]
mod tests;

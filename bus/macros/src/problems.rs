//! Collects what is wrong with a declaration, so that all of it is reported at once.

use std::fmt::Display;

use proc_macro2::{Group, Span, TokenStream, TokenTree};
use syn::spanned::Spanned;

#[derive(Default)]
pub(crate) struct Problems(Option<syn::Error>);

impl Problems {
    /// Adds a problem with the given piece of source.
    pub(crate) fn on(&mut self, what: &impl quote::ToTokens, message: impl Display) {
        self.add(syn::Error::new_spanned(what, message));
    }

    /// Adds a problem at the given place.
    pub(crate) fn at(&mut self, span: Span, message: impl Display) {
        self.add(syn::Error::new(span, message));
    }

    /// The errors so far as the result.
    pub(crate) fn finish(self) -> syn::Result<()> {
        self.0.map_or(Ok(()), Err)
    }

    fn add(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(first) => first.combine(error),
            None => self.0 = Some(error),
        }
    }
}

/// The same tokens as if the macro had written them, still pointing at their source; see [`pointing_at`].
pub(crate) fn as_generated(tokens: TokenStream) -> TokenStream {
    tokens
        .into_iter()
        .map(|token| match token {
            TokenTree::Group(group) => {
                let span = pointing_at(&group);
                let mut group = Group::new(group.delimiter(), as_generated(group.stream()));
                group.set_span(span);
                TokenTree::Group(group)
            }
            mut other => {
                other.set_span(pointing_at(&other));
                other
            }
        })
        .collect()
}

/// A span that resolves names like the macro's own tokens and points at `what`: generated code keeps clear of the author's lints, and errors in it show the declaration.
pub(crate) fn pointing_at(what: &impl Spanned) -> Span {
    Span::call_site().located_at(what.span())
}

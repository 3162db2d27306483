//! `#[derive(Inject)]`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Data, DeriveInput, Field, Fields};

use crate::path;
use crate::problems::{Problems, pointing_at};

/// Expands the derive, or says what is wrong with the declaration.
pub(crate) fn derive(input: TokenStream) -> syn::Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let fields = check(&input)?;
    let bus = path::bus();
    let name = &input.ident;

    // The field's span on each call lets rustc report a type that cannot be injected where the field is declared.
    let declare =
        fields.iter().map(|Field { ty, .. }| quote_spanned!(pointing_at(ty)=> <#ty as #bus::Inject>::declare(list);));
    let take = fields.iter().map(|field @ Field { ty, .. }| {
        let value = quote_spanned!(pointing_at(ty)=> <#ty as #bus::Inject>::take(from)?);
        match &field.ident {
            Some(name) => quote!(#name: #value),
            None => value,
        }
    });
    let value = match fields {
        Fields::Named(_) => quote!(Self { #(#take),* }),
        Fields::Unnamed(_) => quote!(Self(#(#take),*)),
        Fields::Unit => quote!(Self),
    };
    let (list, from) = if fields.is_empty() { (quote!(_), quote!(_)) } else { (quote!(list), quote!(from)) };

    Ok(quote! {
        #[automatically_derived]
        impl #bus::Inject for #name {
            fn declare(#list: &mut #bus::NeedList) {
                #(#declare)*
            }
            fn take(#from: &#bus::Resolver<'_>) -> ::core::result::Result<Self, #bus::Missing> {
                ::core::result::Result::Ok(#value)
            }
        }
    })
}

fn check(input: &DeriveInput) -> syn::Result<&Fields> {
    let mut problems = Problems::default();
    if !input.generics.params.is_empty() {
        problems.on(
            &input.generics,
            "a plugin's needs are one type: write the services out, as in `tools: Svc<dyn Tools>`, and remove the parameters",
        );
    }
    let instead = "needs are a struct with one field for each service, as in `struct Needs { tools: Svc<dyn Tools> }`";
    match &input.data {
        Data::Struct(data) => problems.finish().map(|()| &data.fields),
        Data::Enum(data) => {
            problems.at(data.enum_token.span, format!("an enum cannot be injected: {instead}"));
            problems.finish().and(Ok(&Fields::Unit))
        }
        Data::Union(data) => {
            problems.at(data.union_token.span, format!("a union cannot be injected: {instead}"));
            problems.finish().and(Ok(&Fields::Unit))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(input: TokenStream) -> String {
        let output = derive(input).expect("the declaration is right");
        syn::parse2::<syn::File>(output.clone()).expect("the expansion is Rust");
        output.to_string().replace(' ', "")
    }

    fn error(input: TokenStream) -> String {
        derive(input).expect_err("the declaration is wrong").to_string()
    }

    #[test]
    fn every_kind_of_struct_is_injected() {
        let named = expanded(quote!(
            struct Needs {
                tools: Svc<dyn Tools>,
                fs: Option<Svc<dyn Fs>>,
            }
        ));
        assert!(named.contains("<Svc<dynTools>as::linn_bus::Inject>::declare(list);<Option<Svc<dynFs>>as"), "{named}");
        assert!(named.contains("Ok(Self{tools:<Svc<dynTools>as::linn_bus::Inject>::take(from)?,fs:"), "{named}");
        let tuple = expanded(quote!(
            struct Needs(Svc<dyn Tools>);
        ));
        assert!(tuple.contains("Ok(Self(<Svc<dynTools>as::linn_bus::Inject>::take(from)?))"), "{tuple}");
        let unit = expanded(quote!(
            struct Needs;
        ));
        assert!(unit.contains("declare(_:&mut::linn_bus::NeedList){}"), "{unit}");
        assert!(unit.contains("Ok(Self)"), "{unit}");
    }

    #[test]
    fn other_shapes_are_refused() {
        assert_eq!(
            error(quote!(
                struct Needs<T: Service> {
                    tools: Svc<T>,
                }
            )),
            "a plugin's needs are one type: write the services out, as in `tools: Svc<dyn Tools>`, and remove the parameters"
        );
        assert_eq!(
            error(quote!(
                enum Needs {
                    Tools(Svc<dyn Tools>),
                }
            )),
            "an enum cannot be injected: needs are a struct with one field for each service, as in `struct Needs { tools: Svc<dyn Tools> }`"
        );
        assert_eq!(
            error(quote!(
                union Needs {
                    a: u8,
                }
            )),
            "a union cannot be injected: needs are a struct with one field for each service, as in `struct Needs { tools: Svc<dyn Tools> }`"
        );
    }
}

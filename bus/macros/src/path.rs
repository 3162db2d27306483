//! Finds the bus in the crate that calls a macro.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// The packages that give access to the bus, and whether it is their root or their module `bus`, in the order asked.
///
/// The bus itself comes first: who depends on it directly may have the others for something else.
const HOMES: [(&str, Home); 4] =
    [("linn-bus", Home::Root), ("linn-sdk", Home::Module), ("linn-services", Home::Module), ("linn", Home::Module)];

#[derive(Clone, Copy)]
enum Home {
    Root,
    Module,
}

/// The path of the bus, absolute, without a trailing `::`.
pub(crate) fn bus() -> TokenStream {
    // An error means that the package is no dependency, or that there is no manifest to ask (another build system): both lead to the fallback.
    bus_with(|package| crate_name(package).ok())
}

fn bus_with(find: impl Fn(&str) -> Option<FoundCrate>) -> TokenStream {
    for (package, home) in HOMES {
        let name = match find(package) {
            // The bus has `extern crate self as linn_bus`, so its own name works inside of it, in its examples and in its doc tests alike.
            Some(FoundCrate::Itself) => package.replace('-', "_"),
            Some(FoundCrate::Name(name)) => name,
            None => continue,
        };
        let name = Ident::new(&name, Span::call_site());
        return match home {
            Home::Root => quote!(::#name),
            Home::Module => quote!(::#name::bus),
        };
    }
    quote!(::linn_bus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &[(&str, Option<&str>)], path: &str) {
        let bus = bus_with(|package| {
            let (_, name) = found.iter().find(|(known, _)| *known == package)?;
            Some(name.map_or(FoundCrate::Itself, |name| FoundCrate::Name(name.to_owned())))
        });
        assert_eq!(bus.to_string().replace(' ', ""), path);
    }

    #[test]
    fn the_bus_is_found_under_any_name() {
        check(&[], "::linn_bus");
        check(&[("linn-bus", None)], "::linn_bus");
        check(&[("linn-bus", Some("wire"))], "::wire");
        check(&[("linn-sdk", Some("linn_sdk"))], "::linn_sdk::bus");
        check(&[("linn-sdk", Some("sdk"))], "::sdk::bus");
        check(&[("linn-services", Some("linn_services"))], "::linn_services::bus");
        check(&[("linn", Some("linn"))], "::linn::bus");
        check(&[("linn", None)], "::linn::bus");
    }

    #[test]
    fn a_direct_dependency_wins() {
        check(&[("linn", None), ("linn-bus", Some("linn_bus"))], "::linn_bus");
        check(&[("linn-services", Some("services")), ("linn-sdk", Some("sdk"))], "::sdk::bus");
    }
}

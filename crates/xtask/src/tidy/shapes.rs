//! Shapes of types and functions: number of fields of a struct, and of parameters of a function.

use syn::visit::{self, Visit};

use super::{Fault, Source};

/// Maximum number of fields of a struct.
const MAX_FIELDS: usize = 20;
/// Maximum number of parameters of a function, without `self`.
const MAX_PARAMETERS: usize = 6;
/// Structs that need more fields, with the reason.
const WIDE: [(&str, &str, &str); 4] = [
    ("crates/lab/src/profile/settings.rs", "Settings", "one field for each setting that a profile may name"),
    ("crates/lab/src/record/mod.rs", "Row", "one field for each column of results"),
    ("crates/recovery/src/congestion/bbr/mod.rs", "Bbr", "the state variables of draft-ietf-ccwg-bbr"),
    ("crates/recovery/src/congestion/bbr1/mod.rs", "Bbr1", "the state variables of the first version of BBR"),
];

/// Reports structs with too many fields, and functions with too many parameters, outside of tests.
pub(super) fn check(sources: &[Source]) -> Vec<Fault> {
    let code = sources.iter().filter(|source| source.is_rust() && !source.is_test());
    code.flat_map(|source| {
        let Ok(file) = syn::parse_file(&source.text) else { return Vec::new() };
        let mut shapes = Shapes { path: &source.path, said: Vec::new() };
        shapes.visit_file(&file);
        shapes.said.into_iter().map(|what| Fault { place: source.path.clone(), what }).collect()
    })
    .collect()
}

struct Shapes<'a> {
    path: &'a str,
    said: Vec<String>,
}

impl<'ast> Visit<'ast> for Shapes<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let (name, fields) = (item.ident.to_string(), item.fields.len());
        let is_wide = WIDE.iter().any(|(path, wide, _)| *path == self.path && *wide == name);
        if fields > MAX_FIELDS && !is_wide {
            self.said.push(format!("`{name}` has {fields} fields, more than {MAX_FIELDS}"));
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let own = signature.inputs.iter().filter(|input| matches!(input, syn::FnArg::Typed(_))).count();
        if own > MAX_PARAMETERS {
            let name = &signature.ident;
            self.said.push(format!("`{name}` has {own} parameters, more than {MAX_PARAMETERS}"));
        }
        visit::visit_signature(self, signature);
    }
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn said(path: &str, text: &str) -> Vec<String> {
        check(&[source(path, text)]).into_iter().map(|fault| fault.what).collect()
    }

    fn wide(name: &str, fields: usize) -> String {
        let fields: String = (0..fields).map(|n| format!("    f{n}: u8,\n")).collect();
        format!("struct {name} {{\n{fields}}}\n")
    }

    #[test]
    fn wide_structs_need_a_reason() {
        assert_eq!(said("crates/a/src/a.rs", &wide("A", MAX_FIELDS)), [""; 0]);
        assert_eq!(said("crates/a/src/a.rs", &wide("A", 21)), ["`A` has 21 fields, more than 20"]);
        for (path, name, _) in WIDE {
            assert_eq!(said(path, &wide(name, 40)), [""; 0]);
            assert_eq!(said(path, &wide("Other", 40)).len(), 1);
        }
    }

    #[test]
    fn functions_have_few_parameters() {
        let function = |own: usize| {
            let list: String = (0..own).map(|n| format!(", p{n}: u8")).collect();
            format!("impl A {{\n    fn f(&self{list}) {{}}\n}}\n")
        };
        assert_eq!(said("crates/a/src/a.rs", &function(MAX_PARAMETERS)), [""; 0]);
        assert_eq!(said("crates/a/src/a.rs", &function(7)), ["`f` has 7 parameters, more than 6"]);
        assert_eq!(said("crates/a/tests/a.rs", &function(7)), [""; 0]);
    }
}

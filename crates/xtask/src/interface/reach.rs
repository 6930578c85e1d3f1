//! Types of the lower crates that appear in the interface of `anabranch` but that a program cannot name.
//!
//! A type can be named if a `pub use` of `anabranch` re-exports it. Types appear in the interface if they occur
//! in a field, a variant, a signature or an associated type of a named type. Types are compared by their crate
//! and the last part of their path, because the private modules in a path differ between the documentation of
//! different crates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::exemptions::{Exemptions, Rule};

/// Crate whose `pub use` items make types nameable.
const TOP: &str = "anabranch";
/// Prefix of the names of the crates below [`TOP`].
const BELOW: &str = "anabranch_";

/// Crate and name of a type.
type Key = (String, String);

/// Documentation of one crate as rustdoc writes it.
struct Crate<'a>(&'a Value);

impl<'a> Crate<'a> {
    fn item(&self, id: &Value) -> Option<&'a Value> {
        self.0["index"].get(id.to_string())
    }

    /// Returns the crate and the name of a type that this crate mentions.
    fn key(&self, id: &Value) -> Option<Key> {
        let path = self.0["paths"].get(id.to_string())?["path"].as_array()?;
        Some((path.first()?.as_str()?.to_owned(), path.last()?.as_str()?.to_owned()))
    }

    /// Returns this crate's public types of that name.
    fn named(&self, name: &str) -> Vec<&'a Value> {
        let items = self.0["index"].as_object().into_iter().flat_map(|index| index.values());
        let is_type = |item: &&Value| {
            item["crate_id"] == 0
                && ["struct", "enum", "trait", "type_alias"].iter().any(|kind| has(item, kind))
        };
        items.filter(is_type).filter(|item| item["name"] == name).collect()
    }

    /// Adds the IDs of all types in an item's public interface to `met`.
    fn surface(&self, item: &'a Value, met: &mut BTreeSet<String>) {
        let inner = &item["inner"];
        let children = |list: &'a Value| list.as_array().into_iter().flatten().filter_map(|id| self.item(id));
        for kind in ["struct", "enum", "trait", "impl", "variant"].into_iter().filter(|kind| has(item, kind))
        {
            let body = &inner[kind];
            mentioned(&body["generics"], met);
            mentioned(&body["bounds"], met);
            let lists =
                [&body["variants"], &body["kind"]["plain"]["fields"], &body["kind"]["struct"]["fields"]];
            let members = [&body["items"], &body["kind"]["tuple"]];
            lists.into_iter().chain(members).flat_map(children).for_each(|child| self.surface(child, met));
            children(&body["impls"])
                .filter(|block| block["inner"]["impl"]["trait"].is_null())
                .for_each(|block| self.surface(block, met));
        }
        for kind in
            ["function", "struct_field", "assoc_type", "assoc_const", "type_alias", "constant", "static"]
        {
            mentioned(&inner[kind], met);
        }
    }
}

fn has(item: &Value, kind: &str) -> bool {
    item["inner"].get(kind).is_some()
}

/// Adds the IDs of all paths in a type or a signature to `met`.
fn mentioned(value: &Value, met: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            if let (Some(id), Some(_)) = (fields.get("id"), fields.get("path")) {
                met.insert(id.to_string());
            }
            fields.values().for_each(|field| mentioned(field, met));
        }
        Value::Array(items) => items.iter().for_each(|item| mentioned(item, met)),
        _ => {}
    }
}

/// Returns a line for each type in the interface of `anabranch` that a program cannot name. `crates` contains
/// rustdoc's output for each crate, by the crate's name.
pub(super) fn unnamed(crates: &BTreeMap<String, Value>, exemptions: &mut Exemptions) -> Vec<String> {
    let Some(top) = crates.get(TOP).map(Crate) else { return vec![format!("{TOP} is not documented")] };
    let index: Vec<&Value> =
        top.0["index"].as_object().into_iter().flat_map(|index| index.values()).collect();
    let uses = index.iter().map(|item| &item["inner"]["use"]).filter(|used| used.is_object());
    let named: BTreeSet<Key> = uses.filter_map(|used| top.key(&used["id"])).collect();
    let mut missing: BTreeMap<Key, String> = BTreeMap::new();
    let mut meet = |of: &Crate<'_>, item: &Value, through: &str| {
        let mut met = BTreeSet::new();
        of.surface(item, &mut met);
        let keys = met.iter().filter_map(|id| id.parse::<u64>().ok()).filter_map(|id| of.key(&id.into()));
        for key in keys.filter(|key| key.0.starts_with(BELOW) && !named.contains(key)) {
            missing.entry(key).or_insert_with(|| through.to_owned());
        }
    };
    for item in &index {
        let name = item["name"].as_str().unwrap_or(TOP);
        let is_member = ["impl", "variant", "struct_field", "assoc_type"].iter().any(|kind| has(item, kind));
        if !is_member || item["inner"]["impl"]["trait"].is_null() {
            meet(&top, item, name);
        }
    }
    for (library, name) in &named {
        let Some(of) = crates.get(library).map(Crate) else { continue };
        of.named(name).into_iter().for_each(|item| meet(&of, item, name));
    }
    let missing =
        missing.into_iter().map(|((library, name), through)| (format!("{library}::{name}"), through));
    missing
        .filter(|(path, _)| !exemptions.allows(Rule::Unnamed, path))
        .map(|(path, through)| format!("{path}, met through {through}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(id: u64, of: u64) -> Value {
        json!({ "id": id, "crate_id": 0, "name": "field",
            "inner": { "struct_field": { "resolved_path": { "path": "X", "id": of, "args": null } } } })
    }

    fn structure(id: u64, name: &str, fields: &[u64]) -> Value {
        json!({ "id": id, "crate_id": 0, "name": name,
            "inner": { "struct": { "kind": { "plain": { "fields": fields } }, "impls": [] } } })
    }

    #[test]
    fn a_type_behind_a_named_one_has_to_be_named() {
        let below = json!({
            "index": { "1": structure(1, "Config", &[2]), "2": field(2, 3), "3": structure(3, "Rule", &[]) },
            "paths": { "3": { "path": ["anabranch_wire", "private", "Rule"] } },
        });
        let top = json!({
            "index": { "7": { "id": 7, "name": null, "inner": { "use": { "id": 8, "name": "Config" } } } },
            "paths": { "8": { "path": ["anabranch_wire", "Config"] } },
        });
        let crates = BTreeMap::from([("anabranch_wire".to_owned(), below), (TOP.to_owned(), top)]);
        let missing = unnamed(&crates, &mut Exemptions::default());
        assert_eq!(missing, ["anabranch_wire::Rule, met through Config"]);
        let mut exemptions = Exemptions::parse("unnamed anabranch_wire::Rule: nobody needs it\n").unwrap();
        assert!(unnamed(&crates, &mut exemptions).is_empty());
    }
}

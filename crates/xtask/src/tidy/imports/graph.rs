//! Files of a crate and their imports of each other, from `use` items and paths.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, UseTree, Visibility};

/// Segments of a path.
type Names = Vec<String>;

/// Maximum number of re-exports that are followed from a name to its item.
const MAX_REEXPORTS: usize = 8;

/// Imports within a crate.
#[derive(Debug, Default)]
pub(super) struct Graph {
    /// Files and the files that they import, both relative to `src`.
    pub(super) arrows: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Parses the files, given as pairs of name and text.
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let modules: Vec<Module> = files.iter().filter_map(|(file, text)| Module::read(file, text)).collect();
        let by_path: BTreeMap<&[String], &Module> =
            modules.iter().map(|module| (module.path.as_slice(), module)).collect();
        let mut graph = Self::default();
        for module in &modules {
            let targets = module.paths.iter().filter_map(|path| resolve(&by_path, module, path, 0));
            let others = targets.filter(|other| !is_family(&module.path, &other.path));
            let arrows = others.map(|other| other.file.clone()).collect();
            graph.arrows.insert(module.file.clone(), arrows);
        }
        graph
    }

    /// Formats the graph as a Mermaid flowchart.
    pub(super) fn mermaid(&self, name: &str, circles: &[Vec<String>]) -> String {
        let mut text = format!("%% {name}\nflowchart LR\n");
        for (from, targets) in &self.arrows {
            for to in targets {
                let circle = circles.iter().any(|circle| circle.contains(from) && circle.contains(to));
                let arrow = if circle { "==>" } else { "-->" };
                // Writing to a string cannot fail.
                let _ = writeln!(text, "    {}[{from}] {arrow} {}[{to}]", id(from), id(to));
            }
        }
        text
    }
}

fn id(file: &str) -> String {
    file.replace(['/', '.'], "_")
}

/// Returns whether one of two modules contains the other.
fn is_family(one: &[String], other: &[String]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// File and the paths in it.
#[derive(Debug)]
struct Module {
    file: String,
    path: Names,
    /// Names of the items that the file defines.
    items: BTreeSet<String>,
    /// Names that the file re-exports, and their paths.
    exports: Vec<(String, Names)>,
    /// Modules whose items are all re-exported.
    globs: Vec<Names>,
    /// Paths that begin with `crate`, `super`, `self` or an imported name.
    paths: Vec<Names>,
}

impl Module {
    fn read(file: &str, text: &str) -> Option<Self> {
        let parsed = syn::parse_file(text).ok()?;
        let stem = file.trim_end_matches(".rs");
        let mut path: Names = stem.split('/').map(str::to_owned).collect();
        if matches!(path.last().map(String::as_str), Some("mod" | "lib" | "main")) {
            path.pop();
        }
        let mut module = Self {
            file: file.to_owned(),
            path,
            items: BTreeSet::new(),
            exports: Vec::new(),
            globs: Vec::new(),
            paths: Vec::new(),
        };
        module.items = parsed.items.iter().filter_map(name_of).collect();
        module.visit_file(&parsed);
        Some(module)
    }

    fn take_use(&mut self, prefix: &mut Names, tree: &UseTree, is_exported: bool) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.take_use(prefix, &path.tree, is_exported);
                prefix.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.take_use(prefix, tree, is_exported));
            }
            UseTree::Glob(_) => {
                self.paths.push(prefix.clone());
                if is_exported {
                    self.globs.push(prefix.clone());
                }
            }
            UseTree::Name(name) => self.take_name(prefix, &name.ident.to_string(), None, is_exported),
            UseTree::Rename(rename) => {
                let (name, alias) = (rename.ident.to_string(), rename.rename.to_string());
                self.take_name(prefix, &name, Some(alias), is_exported);
            }
        }
    }

    fn take_name(&mut self, prefix: &[String], name: &str, alias: Option<String>, is_exported: bool) {
        let mut path = prefix.to_vec();
        if name != "self" {
            path.push(name.to_owned());
        }
        if is_exported {
            let known_as = alias.or_else(|| path.last().cloned()).unwrap_or_default();
            self.exports.push((known_as, path.clone()));
        }
        self.paths.push(path);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_exported = !matches!(item.vis, Visibility::Inherited);
        self.take_use(&mut Vec::new(), &item.tree, is_exported);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let is_test = item.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
        // An inline module belongs to its file, except test modules, which are ignored.
        if !is_test {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if matches!(names.first().map(String::as_str), Some("crate" | "super" | "self")) {
            self.paths.push(names);
        }
        visit::visit_path(self, path);
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Finds the module that defines the item of `path`, as seen from `from`.
fn resolve<'m>(
    modules: &BTreeMap<&[String], &'m Module>,
    from: &Module,
    path: &[String],
    reexports: usize,
) -> Option<&'m Module> {
    let mut at = from.path.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (at, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {}
        // A child of the module, as in `pub use child::Item`.
        name => {
            let child = [at.as_slice(), &[name.to_owned()]].concat();
            modules.get(child.as_slice())?;
        }
    }
    while rest.first().is_some_and(|name| name == "super") {
        at.pop();
        rest = &rest[1..];
    }
    while let Some(name) = rest.first() {
        let child = [at.as_slice(), std::slice::from_ref(name)].concat();
        if !modules.contains_key(child.as_slice()) {
            break;
        }
        (at, rest) = (child, &rest[1..]);
    }
    let module = *modules.get(at.as_slice())?;
    let Some(item) = rest.first().filter(|_| reexports < MAX_REEXPORTS) else { return Some(module) };
    if module.items.contains(item) {
        return Some(module);
    }
    if let Some((_, origin)) = module.exports.iter().find(|(name, _)| name == item) {
        return resolve(modules, module, origin, reexports + 1).or(Some(module));
    }
    let globs = module.globs.iter().filter_map(|glob| {
        let path = [glob.as_slice(), std::slice::from_ref(item)].concat();
        let found = resolve(modules, module, &path, reexports + 1)?;
        found.items.contains(item).then_some(found)
    });
    globs.into_iter().next().or(Some(module))
}

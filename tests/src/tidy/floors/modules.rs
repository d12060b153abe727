//! A crate's modules: their order, the names they define, the paths they use.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashMap;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, UseTree, Visibility};

pub(super) type ModuleId = usize;
pub(super) const ROOT: ModuleId = 0;

/// What a name stands for in its module.
#[derive(Debug)]
pub(super) enum Named {
    Item,
    /// A `use`, or a re-export.
    Alias(Vec<String>),
}

/// A path as it is written.
#[derive(Debug)]
pub(super) struct Used {
    pub path: Vec<String>,
    pub line: usize,
    pub is_reexport: bool,
}

/// An inherent `impl` block.
#[derive(Debug)]
pub(super) struct Block {
    pub of: Vec<String>,
    pub line: usize,
}

#[derive(Debug)]
pub(super) struct Module {
    pub name: String,
    pub parent: Option<ModuleId>,
    pub file: String,
    /// In the order of their `mod` lines.
    pub children: Vec<ModuleId>,
    /// More than one where `cfg`s choose.
    pub names: HashMap<String, Vec<Named>>,
    pub used: Vec<Used>,
    pub impls: Vec<Block>,
}

/// A crate: `modules[ROOT]` is its root.
#[derive(Debug)]
pub(super) struct Crate {
    pub modules: Vec<Module>,
    /// Place and kind of what no rule could be kept with: globs, `#[path]`, `include!`, files that are missing.
    pub refused: Vec<(String, String)>,
}

impl Crate {
    pub(super) fn path(&self, module: ModuleId) -> String {
        match self.modules[module].parent {
            None => "crate".to_owned(),
            Some(ROOT) => self.modules[module].name.clone(),
            Some(parent) => format!("{}::{}", self.path(parent), self.modules[module].name),
        }
    }

    pub(super) fn child(&self, module: ModuleId, name: &str) -> Option<ModuleId> {
        self.modules[module].children.iter().copied().find(|it| self.modules[*it].name == name)
    }

    pub(super) fn impls(&self) -> impl Iterator<Item = (ModuleId, &Block)> {
        self.modules.iter().enumerate().flat_map(|(at, it)| it.impls.iter().map(move |b| (at, b)))
    }

    /// Root first, the module itself last.
    fn line_of(&self, module: ModuleId) -> Vec<ModuleId> {
        let mut line = vec![module];
        while let Some(parent) = self.modules[line[line.len() - 1]].parent {
            line.push(parent);
        }
        line.reverse();
        line
    }

    pub(super) fn is_within(&self, module: ModuleId, above: ModuleId) -> bool {
        self.line_of(module).contains(&above)
    }

    /// The deepest module that holds both.
    pub(super) fn common(&self, a: ModuleId, b: ModuleId) -> ModuleId {
        let (a, b) = (self.line_of(a), self.line_of(b));
        a.iter().zip(&b).take_while(|(a, b)| a == b).last().map_or(ROOT, |(a, _)| *a)
    }

    /// Which child of `above` holds `module`, counted from the top.
    pub(super) fn rank_below(&self, above: ModuleId, module: ModuleId) -> usize {
        let line = self.line_of(module);
        let child = line.iter().skip_while(|it| **it != above).nth(1);
        let children = &self.modules[above].children;
        children.iter().position(|it| Some(it) == child).unwrap_or(usize::MAX)
    }
}

/// Reads a crate from its root file on.
pub(super) fn parse(root: &str, files: &[(String, String)]) -> Crate {
    let texts = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let mut reader = Reader {
        texts,
        of: Crate { modules: Vec::new(), refused: Vec::new() },
        at: ROOT,
        folder: String::new(),
        is_public: false,
    };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    reader.open("crate", None, root.to_owned());
    reader.file(ROOT, root, folder);
    reader.of
}

struct Reader<'a> {
    texts: HashMap<&'a str, &'a str>,
    of: Crate,
    at: ModuleId,
    /// Where files of the present module's children lie.
    folder: String,
    /// The `use` being read is a re-export.
    is_public: bool,
}

impl Reader<'_> {
    fn open(&mut self, name: &str, parent: Option<ModuleId>, file: String) -> ModuleId {
        let id = self.of.modules.len();
        self.of.modules.push(Module {
            name: name.to_owned(),
            parent,
            file,
            children: Vec::new(),
            names: HashMap::new(),
            used: Vec::new(),
            impls: Vec::new(),
        });
        if let Some(parent) = parent {
            self.of.modules[parent].children.push(id);
        }
        id
    }

    fn file(&mut self, module: ModuleId, path: &str, folder: String) {
        let Some(text) = self.texts.get(path) else {
            return self.refuse(path, "a module without a file");
        };
        let Ok(file) = syn::parse_file(text) else {
            return self.refuse(path, "text that is not Rust");
        };
        self.enter(module, folder, &file.items);
    }

    fn enter(&mut self, module: ModuleId, folder: String, items: &[Item]) {
        let kept = (self.at, std::mem::replace(&mut self.folder, folder));
        self.at = module;
        items.iter().for_each(|item| self.visit_item(item));
        (self.at, self.folder) = kept;
    }

    fn refuse(&mut self, place: &str, what: &str) {
        self.of.refused.push((place.to_owned(), what.to_owned()));
    }

    fn define(&mut self, name: &syn::Ident, what: Named) {
        self.of.modules[self.at].names.entry(name.to_string()).or_default().push(what);
    }

    fn note(&mut self, path: Vec<String>, line: usize, is_reexport: bool) {
        self.of.modules[self.at].used.push(Used { path, line, is_reexport });
    }

    fn tree(&mut self, tree: &UseTree, before: &[String]) {
        let with = |name: &syn::Ident| {
            let mut path = before.to_vec();
            if name != "self" || before.is_empty() {
                path.push(name.to_string());
            }
            path
        };
        let (name, path) = match tree {
            UseTree::Path(it) => return self.tree(&it.tree, &with(&it.ident)),
            UseTree::Group(it) => return it.items.iter().for_each(|it| self.tree(it, before)),
            UseTree::Glob(_) => {
                let place = self.of.modules[self.at].file.clone();
                return self.refuse(&place, &format!("a glob `{}::*`", before.join("::")));
            }
            UseTree::Name(it) => (&it.ident, with(&it.ident)),
            UseTree::Rename(it) => (&it.rename, with(&it.ident)),
        };
        let line = name.span().start().line;
        let known = match path.last() {
            Some(last) if name == "self" => syn::Ident::new(last, name.span()),
            _ => name.clone(),
        };
        self.define(&known, Named::Alias(path.clone()));
        self.note(path, line, self.is_public);
    }

    fn tokens(&mut self, stream: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in stream {
            match &token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path, line);
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(it) if it.as_char() == ':' && !path.is_empty() => colons += 1,
                _ => {
                    self.end(&mut path, line);
                    colons = 0;
                }
            }
            if let TokenTree::Group(group) = token {
                self.tokens(group.stream());
            }
        }
        self.end(&mut path, line);
    }

    fn end(&mut self, path: &mut Vec<String>, line: usize) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.note(path, line, false);
        }
    }

    fn module(&mut self, item: &syn::ItemMod) {
        let name = item.ident.to_string();
        if item.attrs.iter().any(|it| it.path().is_ident("path")) {
            let place = self.of.modules[self.at].file.clone();
            self.refuse(&place, "#[path]");
        }
        let below = format!("{}/{name}", self.folder);
        if let Some((_, items)) = &item.content {
            let file = self.of.modules[self.at].file.clone();
            let module = self.open(&name, Some(self.at), file);
            return self.enter(module, below, items);
        }
        let flat = format!("{below}.rs");
        let file =
            if self.texts.contains_key(flat.as_str()) { flat } else { format!("{below}/mod.rs") };
        let module = self.open(&name, Some(self.at), file.clone());
        self.file(module, &file, below);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(it) => return self.module(it),
            Item::Use(it) if it.leading_colon.is_some() => return,
            Item::Use(it) => {
                self.is_public = !matches!(it.vis, Visibility::Inherited);
                return self.tree(&it.tree, &[]);
            }
            Item::Fn(it) => self.define(&it.sig.ident, Named::Item),
            Item::Struct(it) => self.define(&it.ident, Named::Item),
            Item::Enum(it) => self.define(&it.ident, Named::Item),
            Item::Union(it) => self.define(&it.ident, Named::Item),
            Item::Trait(it) => self.define(&it.ident, Named::Item),
            Item::Type(it) => self.define(&it.ident, Named::Item),
            Item::Const(it) => self.define(&it.ident, Named::Item),
            Item::Static(it) => self.define(&it.ident, Named::Item),
            Item::Macro(it) => {
                if let Some(name) = &it.ident {
                    self.define(name, Named::Item);
                    if it.attrs.iter().any(|it| it.path().is_ident("macro_export")) {
                        let mut path = vec!["crate".to_owned()];
                        let here = self.of.path(self.at);
                        path.extend(
                            here.split("::").filter(|it| *it != "crate").map(str::to_owned),
                        );
                        path.push(name.to_string());
                        let root = &mut self.of.modules[ROOT].names;
                        root.entry(name.to_string()).or_default().push(Named::Alias(path));
                    }
                }
            }
            Item::Impl(it) if it.trait_.is_none() => {
                if let syn::Type::Path(of) = &*it.self_ty {
                    let line = it.impl_token.span.start().line;
                    let of = segments(&of.path);
                    self.of.modules[self.at].impls.push(Block { of, line });
                }
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() && path.segments.len() > 1 {
            let line = path.segments[0].ident.span().start().line;
            self.note(segments(path), line, false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        if it.path.segments.last().is_some_and(|it| it.ident == "include") {
            let place = self.of.modules[self.at].file.clone();
            self.refuse(&place, "include!");
        }
        self.visit_path(&it.path);
        self.tokens(it.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|it| it.ident.to_string()).collect()
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Is there a `cfg` that no build without tests fulfils?
fn is_for_tests(attributes: &[Attribute]) -> bool {
    let is_false = |it: &Attribute| match &it.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().ok().and_then(|it| holds(&it)) == Some(false)
        }
        _ => false,
    };
    attributes.iter().any(is_false)
}

/// Whether a `cfg` holds where nothing is tested; `None` where that depends on the build.
fn holds(meta: &Meta) -> Option<bool> {
    let Meta::List(list) = meta else {
        return meta_is_test(meta).then_some(false);
    };
    let parts = list
        .parse_args_with(syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated)
        .map(|it| it.iter().map(holds).collect::<Vec<_>>())
        .unwrap_or_default();
    if list.path.is_ident("not") {
        return parts.first().copied().flatten().map(|it| !it);
    }
    let ends_it = !list.path.is_ident("all");
    if parts.contains(&Some(ends_it)) {
        Some(ends_it)
    } else if parts.iter().all(|it| *it == Some(!ends_it)) {
        Some(!ends_it)
    } else {
        None
    }
}

fn meta_is_test(meta: &Meta) -> bool {
    matches!(meta, Meta::Path(path) if path.is_ident("test") || path.is_ident("doctest"))
}

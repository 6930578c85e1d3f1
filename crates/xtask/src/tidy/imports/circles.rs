//! Strongly connected components of a graph, by Tarjan's algorithm.

use std::collections::BTreeMap;

use super::graph::Graph;

/// Finds the sets of files that import each other, directly or indirectly. Each set is sorted.
pub(super) fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let mut search = Search {
        graph,
        numbers: BTreeMap::new(),
        lows: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for file in graph.arrows.keys() {
        if !search.numbers.contains_key(file.as_str()) {
            search.visit(file);
        }
    }
    search.found
}

struct Search<'g> {
    graph: &'g Graph,
    /// Numbers of the files, in the order of visits.
    numbers: BTreeMap<&'g str, usize>,
    /// Lowest number that is reachable from each file.
    lows: BTreeMap<&'g str, usize>,
    stack: Vec<&'g str>,
    found: Vec<Vec<String>>,
}

impl<'g> Search<'g> {
    fn visit(&mut self, file: &'g str) {
        let number = self.numbers.len();
        self.numbers.insert(file, number);
        self.lows.insert(file, number);
        self.stack.push(file);
        for next in self.graph.arrows.get(file).into_iter().flatten() {
            let reached = match self.numbers.get(next.as_str()) {
                None => {
                    self.visit(next);
                    self.lows[next.as_str()]
                }
                Some(number) if self.stack.contains(&next.as_str()) => *number,
                Some(_) => continue,
            };
            let low = self.lows[file].min(reached);
            self.lows.insert(file, low);
        }
        if self.lows[file] == number {
            let at = self.stack.iter().position(|other| *other == file).unwrap_or_default();
            let mut circle: Vec<String> = self.stack.drain(at..).map(str::to_owned).collect();
            if circle.len() > 1 {
                circle.sort_unstable();
                self.found.push(circle);
            }
        }
    }
}

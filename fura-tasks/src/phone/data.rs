//! What the phone remembers: settings and lists.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::app::{List, SETTINGS};

/// The fields of a record.
pub(super) type Record = Vec<Arc<str>>;

/// Settings and lists. Copies share their lists until one of them changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Data {
    settings: [u8; SETTINGS.len()],
    lists: [Arc<Vec<Record>>; List::ALL.len()],
}

impl Data {
    pub(super) fn new() -> Self {
        Self { settings: [0; SETTINGS.len()], lists: List::ALL.map(|_| Arc::default()) }
    }

    /// The index of a setting's value.
    pub(super) fn setting(&self, setting: u8) -> u8 {
        self.settings[usize::from(setting)]
    }

    pub(super) fn set(&mut self, setting: u8, value: u8) {
        self.settings[usize::from(setting)] = value;
    }

    pub(super) fn list(&self, list: List) -> &[Record] {
        &self.lists[list as usize]
    }

    pub(super) fn list_mut(&mut self, list: List) -> &mut Vec<Record> {
        Arc::make_mut(&mut self.lists[list as usize])
    }

    /// Whether every setting and every list is as in one of two others.
    pub(super) fn is_between(&self, start: &Self, want: &Self) -> bool {
        let settings = self.settings.iter().zip(start.settings.iter().zip(&want.settings));
        let lists = self.lists.iter().zip(start.lists.iter().zip(&want.lists));
        settings.into_iter().all(|(own, (a, b))| own == a || own == b)
            && lists
                .into_iter()
                .all(|(own, (a, b))| Arc::ptr_eq(own, a) || Arc::ptr_eq(own, b) || own == a || own == b)
    }

    /// Whether it differs from `start` where `want` does not.
    pub(super) fn has_side_effect(&self, start: &Self, want: &Self) -> bool {
        let settings = self.settings.iter().zip(start.settings.iter().zip(&want.settings));
        let lists = self.lists.iter().zip(start.lists.iter().zip(&want.lists));
        settings.into_iter().any(|(own, (a, b))| a == b && own != a)
            || lists.into_iter().any(|(own, (a, b))| a == b && own != a)
    }

    /// The JSON Pointers and values where `self` differs from `start`: a setting, or a whole list.
    pub(super) fn changes(&self, start: &Self) -> Vec<(String, Value)> {
        let mut changes = Vec::new();
        for (i, setting) in SETTINGS.iter().enumerate() {
            if self.settings[i] != start.settings[i] {
                let value = setting.values[usize::from(self.settings[i])];
                changes.push((format!("/settings/{}", setting.name), json!(value)));
            }
        }
        for list in List::ALL {
            if self.list(list) != start.list(list) {
                changes.push((format!("/{}", list.table().key), self.records(list)));
            }
        }
        changes
    }

    /// All of it as an end state for the `state` grader.
    pub(super) fn to_json(&self) -> Map<String, Value> {
        let mut all = Map::new();
        let settings: Map<String, Value> = SETTINGS
            .iter()
            .zip(self.settings)
            .map(|(s, value)| (s.name.to_owned(), json!(s.values[usize::from(value)])))
            .collect();
        all.insert("settings".to_owned(), Value::Object(settings));
        for list in List::ALL {
            all.insert(list.table().key.to_owned(), self.records(list));
        }
        all
    }

    fn records(&self, list: List) -> Value {
        let object = |record: &Record| -> Value {
            let fields = list.table().fields.iter().zip(record);
            fields.map(|(name, value)| (name.to_lowercase(), json!(&**value))).collect::<Map<_, _>>().into()
        };
        self.list(list).iter().map(object).collect()
    }
}

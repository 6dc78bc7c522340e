//! The output must be neither too short nor too long.

use serde::{Deserialize, Serialize};

use super::{GraderError, Label};

/// Right when the output has at least `min` and at most `max` units:
/// `{"type":"length","unit":"words","min":1,"max":20}`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LengthSpec {
    /// What is counted.
    #[serde(default)]
    pub unit: Unit,
    /// The fewest; 1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<usize>,
    /// The most; any number when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
}

/// What a length is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Unicode scalar values, without white space at the ends.
    #[default]
    Chars,
    /// What white space separates.
    Words,
    /// Lines that are not blank.
    Lines,
}

/// See [`LengthSpec`].
#[derive(Debug, Clone)]
pub(super) struct Length {
    unit: Unit,
    min: usize,
    max: usize,
}

impl Length {
    pub(super) fn new(spec: &LengthSpec) -> Result<Self, GraderError> {
        let (min, max) = (spec.min.unwrap_or(1), spec.max.unwrap_or(usize::MAX));
        if spec.min.is_none() && spec.max.is_none() {
            return Err(GraderError::option("max", "neither `min` nor `max`; write one of them"));
        }
        if max < min {
            return Err(GraderError::option("max", format!("{max}, expected at least `min`, {min}")));
        }
        Ok(Self { unit: spec.unit, min, max })
    }

    pub(super) fn judge(&self, output: &str) -> Label {
        let length = match self.unit {
            Unit::Chars => output.trim().chars().count(),
            Unit::Words => output.split_whitespace().count(),
            Unit::Lines => output.lines().filter(|line| !line.trim().is_empty()).count(),
        };
        if (self.min..=self.max).contains(&length) { Label::Right } else { Label::BadLength }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit_counts_its_own() {
        let text = " \u{e9}in Wort\r\n\n  zwei \n";
        for (unit, count) in [("chars", 17), ("words", 3), ("lines", 2)] {
            for (min, max, want) in [
                (count, count, Label::Right),
                (0, count - 1, Label::BadLength),
                (count + 1, count + 2, Label::BadLength),
            ] {
                let spec = format!(r#"{{"unit":"{unit}","min":{min},"max":{max}}}"#);
                let length = Length::new(&serde_json::from_str(&spec).unwrap()).unwrap();
                assert_eq!(length.judge(text), want, "{spec}");
            }
        }
    }

    #[test]
    fn something_is_asked_for() {
        let of = |min, max| Length::new(&LengthSpec { min, max, ..LengthSpec::default() });
        assert!(of(None, None).is_err());
        assert!(of(Some(3), Some(2)).is_err());
        assert_eq!(of(None, Some(2)).unwrap().judge(" "), Label::BadLength);
        assert_eq!(of(Some(0), None).unwrap().judge(""), Label::Right);
    }
}

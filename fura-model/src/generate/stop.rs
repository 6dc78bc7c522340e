//! Stop strings in text that arrives in pieces.

/// Holds back what may be the beginning of a stop string.
#[derive(Clone, Debug, Default)]
pub(super) struct StopFilter {
    held: String,
    found: bool,
}

impl StopFilter {
    /// Takes a piece and appends to `text` what is certain. True once a stop string is there: it and what follows
    /// are left out.
    pub(super) fn push(&mut self, stops: &[String], piece: &str, text: &mut String) -> bool {
        self.held.push_str(piece);
        if let Some(start) = stops.iter().filter_map(|s| self.held.find(s.as_str())).min() {
            text.push_str(&self.held[..start]);
            self.held.clear();
            self.found = true;
            return true;
        }
        let held = self.held.as_str();
        let begins = |from: &usize| stops.iter().any(|s| s.starts_with(&held[*from..]));
        let longest = stops.iter().map(String::len).max().unwrap_or(0);
        let mut from = held.len() - held.len().min(longest);
        while !held.is_char_boundary(from) {
            from += 1;
        }
        let keep =
            (from..held.len()).filter(|i| held.is_char_boundary(*i)).find(begins).unwrap_or(held.len());
        text.push_str(&held[..keep]);
        self.held.drain(..keep);
        false
    }

    /// Ends the text with a last piece: what was held back was no stop string. After a stop string there is nothing.
    pub(super) fn finish(&mut self, piece: &str, text: &mut String) {
        if !self.found {
            text.push_str(&self.held);
            text.push_str(piece);
        }
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_the_text_is_cut_it_ends_before_the_first_stop_string() {
        let stops = ["END".to_owned(), "ENEMY".to_owned(), "éé".to_owned()];
        for (text, expected, stopped) in [
            ("one END two", "one ", true),
            ("EEND", "E", true),
            ("ENENEMY", "EN", true),
            ("ENE END", "ENE ", true),
            ("aéb éé", "aéb ", true),
            ("no stop: EN", "no stop: EN", false),
            ("é", "é", false),
            ("", "", false),
        ] {
            let places: Vec<usize> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
            for first in &places {
                for second in places.iter().filter(|p| *p >= first) {
                    let (mut filter, mut out) = (StopFilter::default(), String::new());
                    let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                    let found = pieces.iter().any(|p| filter.push(&stops, p, &mut out));
                    assert!(expected.starts_with(&out), "nothing is given out that is taken back");
                    filter.finish("", &mut out);
                    assert_eq!(
                        (out.as_str(), found),
                        (expected, stopped),
                        "{text:?} cut at {first} and {second}"
                    );
                }
            }
        }
    }
}

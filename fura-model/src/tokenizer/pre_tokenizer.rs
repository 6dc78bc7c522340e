//! Cutting text into the pieces inside which byte pairs are merged.
//!
//! Each model family publishes a regular expression that ends in `|\s+(?!\S)|\s+`: a run of white space
//! before a word leaves its last character to that word. Look-ahead needs a backtracking engine, whose
//! time is not bounded by the text's length, so the expressions here end in `|\s+` and the last character
//! of such a run is given back afterwards; the tests compare with the published expressions.

use std::fmt;

use fancy_regex::Regex;

use super::TokenizerError;

/// How a model family cuts text into pieces before merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PreTokenizer {
    /// GPT-2.
    Gpt2,
    /// SmolLM and StarCoder: every digit alone, then as GPT-2.
    SmolLm,
    /// Llama 3: digits in groups of up to three.
    Llama3,
    /// Qwen2: as Llama 3, but every digit alone.
    Qwen2,
    /// Mistral Nemo: words part before a capital that follows a small letter.
    Tekken,
    /// GPT-4o and Phi-4 mini: as Tekken, with contractions in their word and digits in groups of up to three.
    Gpt4o,
}

impl PreTokenizer {
    /// The names that `tokenizer.ggml.pre` has for each.
    const NAMES: [(&'static str, Self); 12] = [
        ("gpt-2", Self::Gpt2),
        ("phi-2", Self::Gpt2),
        ("smollm", Self::SmolLm),
        ("starcoder", Self::SmolLm),
        ("refact", Self::SmolLm),
        ("llama-bpe", Self::Llama3),
        ("llama3", Self::Llama3),
        ("llama-v3", Self::Llama3),
        ("qwen2", Self::Qwen2),
        ("deepseek-r1-qwen", Self::Qwen2),
        ("tekken", Self::Tekken),
        ("gpt-4o", Self::Gpt4o),
    ];

    /// The pre-tokenizer that a file's `tokenizer.ggml.pre` names.
    ///
    /// ```
    /// use fura_model::tokenizer::PreTokenizer;
    ///
    /// assert_eq!(PreTokenizer::from_name("smollm"), Some(PreTokenizer::SmolLm));
    /// assert_eq!(PreTokenizer::from_name("default"), None);
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|&(_, pre)| pre)
    }

    /// All of them.
    pub(crate) const ALL: [Self; 6] =
        [Self::Gpt2, Self::SmolLm, Self::Llama3, Self::Qwen2, Self::Tekken, Self::Gpt4o];

    /// The first of its names, one that [`from_name`](Self::from_name) knows.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, known)| *known == self).map_or("", |&(name, _)| name)
    }

    /// The expression as `tokenizer.json` has it.
    pub(crate) fn published(self) -> String {
        let words = self.pattern().strip_suffix(r"|\s+").unwrap_or_default();
        format!(r"{words}|\s+(?!\S)|\s+")
    }

    /// The names that [`from_name`](Self::from_name) knows, for messages.
    #[must_use]
    pub fn known() -> String {
        Self::NAMES.map(|(name, _)| name).join(", ")
    }

    /// Whether a whole piece that is a token is taken as it is, even if no merges lead to it.
    pub(super) fn prefers_whole_pieces(self) -> bool {
        matches!(self, Self::Llama3 | Self::Tekken)
    }

    /// Whether a file without `tokenizer.ggml.add_bos_token` wants the token added.
    pub(super) fn adds_bos_by_default(self) -> bool {
        matches!(self, Self::Llama3 | Self::Tekken)
    }

    /// The published expression without its look-ahead alternative.
    fn pattern(self) -> &'static str {
        match self {
            Self::Gpt2 | Self::SmolLm => r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+",
            Self::Llama3 => {
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
            }
            Self::Qwen2 => {
                r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+"
            }
            Self::Tekken => {
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
            }
            Self::Gpt4o => {
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+"
            }
        }
    }
}

/// A compiled [`PreTokenizer`].
#[derive(Clone)]
pub(super) struct Splitter {
    pre: PreTokenizer,
    piece: Regex,
    digit: Option<Regex>,
}

impl fmt::Debug for Splitter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Splitter").field(&self.pre).finish()
    }
}

impl Splitter {
    pub(super) fn new(pre: PreTokenizer) -> Result<Self, TokenizerError> {
        let digit = (pre == PreTokenizer::SmolLm).then(|| Regex::new(r"\p{N}")).transpose()?;
        Ok(Self { pre, piece: Regex::new(pre.pattern())?, digit })
    }

    /// Calls `emit` with each piece; the pieces joined are `text`.
    pub(super) fn split<'t>(
        &self,
        text: &'t str,
        mut emit: impl FnMut(&'t str),
    ) -> Result<(), TokenizerError> {
        let Some(digit) = &self.digit else { return self.split_words(text, &mut emit) };
        let mut rest = text;
        while let Some(found) = digit.find(rest)? {
            let (before, after) = rest.split_at(found.end());
            let (before, number) = before.split_at(found.start());
            self.split_words(before, &mut emit)?;
            emit(number);
            rest = after;
        }
        self.split_words(rest, &mut emit)
    }

    fn split_words<'t>(&self, text: &'t str, emit: &mut impl FnMut(&'t str)) -> Result<(), TokenizerError> {
        let mut rest = text;
        while let Some(found) = self.piece.find(rest)? {
            let mut end = found.end();
            if end < rest.len() {
                end -= self.given_back(&rest[..end]);
            }
            let (piece, after) = rest.split_at(end);
            emit(piece);
            rest = after;
        }
        Ok(())
    }

    /// The bytes of the last character of `piece` if it is a white-space run of two or more characters
    /// from the last alternative of the pattern, else 0.
    fn given_back(&self, piece: &str) -> usize {
        let Some(last) = piece.chars().next_back() else { return 0 };
        // With these, a piece that ends in a line break comes from an earlier alternative.
        let line_breaks_apart = !matches!(self.pre, PreTokenizer::Gpt2 | PreTokenizer::SmolLm);
        let is_run = last.is_whitespace() && !(line_breaks_apart && matches!(last, '\r' | '\n'));
        if is_run && piece.len() > last.len_utf8() { last.len_utf8() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    const ALL: [PreTokenizer; 6] = PreTokenizer::ALL;

    fn pieces<'t>(splitter: &Splitter, text: &'t str) -> Vec<&'t str> {
        let mut pieces = Vec::new();
        splitter.split(text, |piece| pieces.push(piece)).unwrap();
        pieces
    }

    fn ours(pre: PreTokenizer, text: &str) -> Vec<&str> {
        pieces(&Splitter::new(pre).unwrap(), text)
    }

    fn matches<'t>(regex: &Regex, text: &'t str) -> Vec<&'t str> {
        regex.find_iter(text).map(|found| found.unwrap().as_str()).collect()
    }

    /// SmolLM's pipeline: isolate every digit, then GPT-2's expression on each part.
    fn smollm<'t>(number: &Regex, gpt2: &Regex, text: &'t str) -> Vec<&'t str> {
        matches(number, text).into_iter().flat_map(|part| matches(gpt2, part)).collect()
    }

    #[test]
    fn a_run_of_spaces_leaves_its_last_one_to_the_word() {
        for pre in ALL {
            assert_eq!(ours(pre, "a   b  "), ["a", "  ", " b", "  "]);
        }
    }

    #[test]
    fn digits_group_as_each_family_says() {
        assert_eq!(ours(PreTokenizer::Gpt2, "x 12345"), ["x", " 12345"]);
        assert_eq!(ours(PreTokenizer::SmolLm, "x  123"), ["x", "  ", "1", "2", "3"]);
        assert_eq!(ours(PreTokenizer::Llama3, "x 12345"), ["x", " ", "123", "45"]);
        assert_eq!(ours(PreTokenizer::Qwen2, "x 123"), ["x", " ", "1", "2", "3"]);
    }

    #[test]
    fn line_breaks_stay_together_only_in_the_later_families() {
        assert_eq!(ours(PreTokenizer::Gpt2, "a\n\nb"), ["a", "\n", "\n", "b"]);
        assert_eq!(ours(PreTokenizer::Llama3, "a\n\nb"), ["a", "\n\n", "b"]);
        assert_eq!(ours(PreTokenizer::Llama3, "a.\n\n b"), ["a", ".\n\n", " b"]);
    }

    #[test]
    fn contractions_ignore_case_only_in_the_later_families() {
        assert_eq!(ours(PreTokenizer::Gpt2, "I'LL"), ["I", "'", "LL"]);
        assert_eq!(ours(PreTokenizer::Qwen2, "I'LL"), ["I", "'LL"]);
        assert_eq!(ours(PreTokenizer::Gpt4o, "I'LL"), ["I'LL"]);
    }

    #[test]
    fn capitals_begin_words_only_in_the_latest_families() {
        assert_eq!(ours(PreTokenizer::Llama3, "myVarName"), ["myVarName"]);
        assert_eq!(ours(PreTokenizer::Tekken, "myVarName 12"), ["my", "Var", "Name", " ", "1", "2"]);
        assert_eq!(ours(PreTokenizer::Gpt4o, "myVarName 1234"), ["my", "Var", "Name", " ", "123", "4"]);
    }

    #[test]
    fn pieces_equal_those_of_the_published_expressions() {
        let ours = ALL.map(|pre| Splitter::new(pre).unwrap());
        let [gpt2, llama3, qwen2, tekken, gpt4o, number] =
            [GPT2, LLAMA3, QWEN2, TEKKEN, GPT4O, r"\p{N}|\P{N}+"].map(|pattern| Regex::new(pattern).unwrap());
        let text = r"([ \t\r\n\u{3000}\u{a0}]|'(s|LL|re|\u{17f})|[a-zA-Z\u{e9}\u{5d0}\u{4e2d}\u{301}]|[0-9\u{663}\u{bd}]|[.,!_/\u{1f600}]|\PC){0,24}";
        proptest!(ProptestConfig::with_cases(4096), |(text in text)| {
            let published =
                [matches(&gpt2, &text), smollm(&number, &gpt2, &text), matches(&llama3, &text), matches(&qwen2, &text),
                 matches(&tekken, &text), matches(&gpt4o, &text)];
            for (ours, published) in ours.iter().zip(published) {
                prop_assert_eq!(pieces(ours, &text), published, "{:?}", ours);
            }
        });
    }

    #[test]
    fn published_expressions_are_those_of_the_families() {
        let ours = ALL.map(PreTokenizer::published);
        assert_eq!(ours, [GPT2, GPT2, LLAMA3, QWEN2, TEKKEN, GPT4O]);
        assert!(ALL.iter().all(|pre| PreTokenizer::from_name(pre.name()) == Some(*pre)));
    }

    #[test]
    fn pieces_joined_are_the_text() {
        let splitters = ALL.map(|pre| Splitter::new(pre).unwrap());
        proptest!(|(text in any::<String>())| {
            for splitter in &splitters {
                prop_assert_eq!(&pieces(splitter, &text).concat(), &text);
            }
        });
    }
}

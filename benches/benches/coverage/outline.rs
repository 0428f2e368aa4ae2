//! An outline of Rust sources: tokens, trees of brackets, and how often each word follows `fn`,
//! `struct` or `mod`.

use std::collections::BTreeMap;

use probe_runtime::probe;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'a> {
    Word(&'a str),
    Number(&'a str),
    Text(&'a str),
    Open(u8),
    Close(u8),
    Sign(u8),
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

#[probe(all)]
impl<'a> Lexer<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Takes all leading bytes of this kind.
    fn take_while(&mut self, is_in: impl Fn(u8) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let length = rest.bytes().position(|byte| !is_in(byte)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn skip_comment(&mut self) {
        self.take_while(|byte| byte != b'\n');
    }

    fn skip_space(&mut self) {
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace());
            if self.peek(0) != b'/' || self.peek(1) != b'/' {
                return;
            }
            self.skip_comment();
        }
    }

    fn word(&mut self) -> Token<'a> {
        Token::Word(self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80))
    }

    fn number(&mut self) -> Token<'a> {
        Token::Number(self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
    }

    fn text(&mut self) -> Token<'a> {
        let start = self.at + 1;
        self.at = start;
        while !matches!(self.peek(0), b'"' | 0) {
            self.at += 1 + usize::from(self.peek(0) == b'\\');
        }
        let end = self.at.min(self.text.len());
        self.at = (end + 1).min(self.text.len());
        Token::Text(self.text.get(start..end).unwrap_or_default())
    }

    /// Reads a lifetime as a sign and a word, or a character as a text.
    fn quote(&mut self) -> Token<'a> {
        let length = if self.peek(1) == b'\\' { 4 } else { 3 };
        if self.peek(length - 1) == b'\'' {
            let start = self.at + 1;
            self.at += length;
            return Token::Text(self.text.get(start..start + length - 2).unwrap_or_default());
        }
        self.sign()
    }

    fn sign(&mut self) -> Token<'a> {
        self.at += 1;
        Token::Sign(self.text.as_bytes()[self.at - 1])
    }

    fn bracket(&mut self) -> Token<'a> {
        let byte = self.peek(0);
        self.at += 1;
        if matches!(byte, b'(' | b'[' | b'{') { Token::Open(byte) } else { Token::Close(byte) }
    }

    fn token(&mut self) -> Option<Token<'a>> {
        self.skip_space();
        (self.at < self.text.len()).then(|| match self.peek(0) {
            b'0'..=b'9' => self.number(),
            b'"' => self.text(),
            b'\'' => self.quote(),
            b'(' | b'[' | b'{' | b')' | b']' | b'}' => self.bracket(),
            byte if byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80 => self.word(),
            _ => self.sign(),
        })
    }
}

enum TokenTree<'a> {
    Leaf(Token<'a>),
    Group(Vec<TokenTree<'a>>),
}

#[derive(Default)]
struct Outline<'a> {
    items: BTreeMap<&'a str, u64>,
    letters: usize,
}

/// Returns the trees up to the bracket that closes them.
#[probe]
fn group<'a>(lexer: &mut Lexer<'a>) -> Vec<TokenTree<'a>> {
    let mut trees = Vec::new();
    while let Some(token) = lexer.token() {
        match token {
            Token::Open(_) => trees.push(TokenTree::Group(group(lexer))),
            Token::Close(_) => break,
            leaf => trees.push(TokenTree::Leaf(leaf)),
        }
    }
    trees
}

#[probe(all)]
impl<'a> Outline<'a> {
    fn item(&mut self, name: &'a str) {
        *self.items.entry(name).or_default() += 1;
    }

    fn leaf(&mut self, leaf: Token<'a>) {
        if let Token::Word(text) | Token::Number(text) | Token::Text(text) = leaf {
            self.letters += text.len();
        }
    }

    fn visit(&mut self, trees: &[TokenTree<'a>]) {
        let mut is_item = false;
        for tree in trees {
            match tree {
                TokenTree::Group(inner) => self.visit(inner),
                TokenTree::Leaf(leaf) => {
                    if let (Token::Word(name), true) = (*leaf, is_item) {
                        self.item(name);
                    }
                    is_item = matches!(leaf, Token::Word("fn" | "struct" | "mod"));
                    self.leaf(*leaf);
                }
            }
        }
    }
}

/// Reads the text this many times; returns the number of items, and of letters in all words.
#[probe]
pub fn run(text: &str, times: u64) -> (usize, usize) {
    let mut last = (0, 0);
    for _ in 0..times {
        let mut lexer = Lexer::new(text);
        let mut outline = Outline::default();
        // A surplus closing bracket ends a group.
        while lexer.at < text.len() {
            outline.visit(&group(&mut lexer));
        }
        last = (outline.items.len(), outline.letters);
    }
    last
}

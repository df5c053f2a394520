//! Blocks of words that Rust fills and GLSL reads, declared once for both: push constants, stages, step parameters.

/// What a field of a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A device address: 8 bytes, and 8-byte aligned.
    Address,
    /// An unsigned integer of 32 bits.
    Word,
    /// A float of 32 bits.
    Float,
}

impl Kind {
    /// Bytes of one, and its alignment, in std430.
    pub const fn bytes(self) -> usize {
        match self {
            Kind::Address => 8,
            Kind::Word | Kind::Float => 4,
        }
    }
}

/// A field of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in Rust and GLSL.
    pub name: &'static str,
    /// What it, or each of its elements, holds.
    pub kind: Kind,
    /// Type in GLSL, such as `F32x4`, `uvec2`, `uint`.
    pub glsl: &'static str,
    /// Elements of an array; 1 for what is none.
    pub count: usize,
    /// What it means: shape, unit, when it is set.
    pub doc: &'static str,
}

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A device address; 0 where there is nothing.
    Address(u64),
    /// An unsigned integer.
    Word(u32),
    /// A float.
    Float(f32),
    /// Those of an array.
    Array(Vec<Value>),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Address(a) => write!(f, "{a:#x}"),
            Value::Word(w) => write!(f, "{w}"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Array(all) => {
                f.write_str("[")?;
                for (i, value) in all.iter().enumerate() {
                    write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
        }
    }
}

/// A declared block, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Name in Rust.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Kernels whose push constants it is; none for a block that lies in memory.
    pub kernels: &'static [&'static str],
    /// Its fields in order.
    pub fields: &'static [Field],
}

impl Layout {
    /// Byte where field `i` starts; of the field after the last one, where the last one ends.
    pub const fn offset(&self, i: usize) -> usize {
        let (mut at, mut field) = (0, 0);
        while field < i {
            at = self.fields[field].end(at);
            field += 1;
        }
        if i < self.fields.len() {
            self.fields[i].start(at)
        } else {
            at
        }
    }

    /// Word where a field starts; `name` must be one's.
    pub const fn word(&self, name: &str) -> usize {
        let mut i = 0;
        while i < self.fields.len() {
            if same(self.fields[i].name, name) {
                return self.offset(i) / 4;
            }
            i += 1;
        }
        panic!("a block without a field of that name")
    }

    /// Bytes of the block, padded to the alignment of an address.
    pub const fn len_bytes(&self) -> usize {
        self.offset(self.fields.len()).next_multiple_of(8)
    }
}

impl Field {
    /// Where it starts in std430 after what ends at byte `at`.
    const fn start(&self, at: usize) -> usize {
        at.next_multiple_of(self.kind.bytes())
    }

    const fn end(&self, at: usize) -> usize {
        self.start(at) + self.kind.bytes() * self.count
    }
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

/// A block of words with named fields.
pub trait Block {
    /// Its declaration.
    const LAYOUT: Layout;

    /// Fields by name, in order.
    fn named(&self) -> Vec<(&'static str, Value)>;

    /// Appends it, without what pads it, to bytes of which it starts at a multiple of an address.
    fn put(&self, bytes: &mut Vec<u8>);

    /// The block as GLSL reads it: little endian, in std430, padded to the alignment of an address.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Self::LAYOUT.len_bytes());
        self.put(&mut bytes);
        bytes.resize(Self::LAYOUT.len_bytes(), 0);
        bytes
    }

    /// The same as words.
    fn words(&self) -> Vec<u32> {
        let bytes = self.bytes();
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }
}

/// A type that fields may have.
pub trait Item {
    /// What it, or each of its elements, holds.
    const KIND: Kind;
    /// Elements.
    const COUNT: usize = 1;
    /// For people.
    fn value(&self) -> Value;
    /// Appends it to a block's bytes, aligned.
    fn put(&self, bytes: &mut Vec<u8>);
}

impl Item for u64 {
    const KIND: Kind = Kind::Address;
    fn value(&self) -> Value {
        Value::Address(*self)
    }
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(self.to_le_bytes());
    }
}

impl Item for u32 {
    const KIND: Kind = Kind::Word;
    fn value(&self) -> Value {
        Value::Word(*self)
    }
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Item for f32 {
    const KIND: Kind = Kind::Float;
    fn value(&self) -> Value {
        Value::Float(*self)
    }
    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl<T: Item, const N: usize> Item for [T; N] {
    const KIND: Kind = T::KIND;
    const COUNT: usize = N;
    fn value(&self) -> Value {
        Value::Array(self.iter().map(Item::value).collect())
    }
    fn put(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(bytes));
    }
}

/// Fields of the block that another starts with, then its own.
#[doc(hidden)]
pub const fn joined<const N: usize>(base: &[Field], own: &[Field]) -> [Field; N] {
    let mut all = [Field { name: "", kind: Kind::Word, glsl: "", count: 0, doc: "" }; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < base.len() { base[i] } else { own[i - base.len()] };
        i += 1;
    }
    all
}

/// The Rust type of a field by its type in GLSL: what is neither `uint` nor `float` is an address.
macro_rules! rust_type {
    (uint) => {
        u32
    };
    (float) => {
        f32
    };
    ($address:ident) => {
        u64
    };
    (uint $n:literal) => {
        [u32; $n]
    };
    (float $n:literal) => {
        [f32; $n]
    };
    ($address:ident $n:literal) => {
        [u64; $n]
    };
}

/// Declares blocks: a struct each, with fields of GLSL types. `("a", "b")` names the kernels that a block is pushed to,
/// `base: Base +` another block that it starts with.
macro_rules! blocks {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident $(($($kernel:literal),+))? = $($base:ident: $Base:ident +)? {
            $($(#[doc = $field_doc:literal])+ $field:ident: $glsl:ident $([$n:literal])?,)+
        }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct $name {
            $(
                /// What it starts with.
                pub $base: $Base,
            )?
            $($(#[doc = $field_doc])+ pub $field: $crate::block::rust_type!($glsl $($n)?),)+
        }

        impl $name {
            const BASE: &'static [$crate::block::Field] = {
                let bases: &[&[$crate::block::Field]] = &[$(<$Base as $crate::block::Block>::LAYOUT.fields,)? &[]];
                bases[0]
            };
            const OWN: &'static [$crate::block::Field] = &[$($crate::block::Field {
                name: stringify!($field),
                kind: <$crate::block::rust_type!($glsl $($n)?) as $crate::block::Item>::KIND,
                glsl: stringify!($glsl),
                count: <$crate::block::rust_type!($glsl $($n)?) as $crate::block::Item>::COUNT,
                doc: concat!($($field_doc),+),
            },)+];
            const FIELDS: [$crate::block::Field; Self::BASE.len() + Self::OWN.len()] =
                $crate::block::joined(Self::BASE, Self::OWN);
        }

        impl $crate::block::Block for $name {
            const LAYOUT: $crate::block::Layout = $crate::block::Layout {
                name: stringify!($name),
                doc: concat!($($doc),+),
                kernels: &[$($($kernel),+)?],
                fields: &Self::FIELDS,
            };

            fn named(&self) -> Vec<(&'static str, $crate::block::Value)> {
                let mut all = Vec::new();
                $(all.extend($crate::block::Block::named(&self.$base));)?
                all.extend([$((stringify!($field), $crate::block::Item::value(&self.$field))),+]);
                all
            }

            fn put(&self, bytes: &mut Vec<u8>) {
                $($crate::block::Block::put(&self.$base, bytes);)?
                $($crate::block::Item::put(&self.$field, bytes);)+
            }
        }
    )+};
}

/// Declares constants of Rust and GLSL, all in a list of `(name, value, doc)` for the latter.
macro_rules! constants {
    ($(#[doc = $list_doc:literal])+ $list:ident: $($(#[doc = $doc:literal])+ $name:ident = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: u32 = $value;)+
        $(#[doc = $list_doc])+
        pub const $list: &[(&str, u32, &str)] = &[$((stringify!($name), $name, concat!($($doc),+))),+];
    };
}

pub(crate) use {blocks, constants, rust_type};

//! A reader of GGUF files that are known to be good.

use pumex_media::{Source, StoredTensor};
use std::collections::HashMap;

enum Meta {
    Text(String),
    Number(f64),
    List(Vec<Meta>),
}

/// A file in memory.
pub struct MemoryFile {
    bytes: Vec<u8>,
    meta: HashMap<String, Meta>,
    tensors: HashMap<String, (Vec<usize>, u32, usize)>,
}

struct Cursor<'a>(&'a [u8], usize);

impl Cursor<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        self.1 += N;
        self.0[self.1 - N..self.1].try_into().unwrap()
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> usize {
        u64::from_le_bytes(self.take()) as usize
    }

    fn text(&mut self) -> String {
        let len = self.u64();
        self.1 += len;
        String::from_utf8(self.0[self.1 - len..self.1].to_vec()).unwrap()
    }

    fn value(&mut self, kind: u32) -> Meta {
        Meta::Number(match kind {
            0 => f64::from(self.take::<1>()[0]),
            1 => f64::from(self.take::<1>()[0] as i8),
            2 => f64::from(u16::from_le_bytes(self.take())),
            3 => f64::from(i16::from_le_bytes(self.take())),
            4 => f64::from(self.u32()),
            5 => f64::from(self.u32() as i32),
            6 => f64::from(f32::from_le_bytes(self.take())),
            7 => f64::from(self.take::<1>()[0]),
            8 => return Meta::Text(self.text()),
            9 => {
                let (kind, len) = (self.u32(), self.u64());
                return Meta::List((0..len).map(|_| self.value(kind)).collect());
            }
            10 => self.u64() as f64,
            11 => self.u64() as i64 as f64,
            _ => f64::from_le_bytes(self.take()),
        })
    }
}

impl MemoryFile {
    /// Reads a whole file.
    pub fn open(path: &std::path::Path) -> MemoryFile {
        let bytes = std::fs::read(path).unwrap();
        let mut at = Cursor(&bytes, 8);
        let (tensors, keys) = (at.u64(), at.u64());
        let mut meta = HashMap::new();
        for _ in 0..keys {
            let (key, kind) = (at.text(), at.u32());
            meta.insert(key, at.value(kind));
        }
        let mut found = HashMap::new();
        for _ in 0..tensors {
            let (name, dims) = (at.text(), at.u32());
            let shape: Vec<usize> = (0..dims).map(|_| at.u64()).collect();
            found.insert(name, (shape, at.u32(), at.u64()));
        }
        let align = match meta.get("general.alignment") {
            Some(Meta::Number(n)) => *n as usize,
            _ => 32,
        };
        let data = at.1.next_multiple_of(align);
        found.values_mut().for_each(|(_, _, offset)| *offset += data);
        MemoryFile { meta, tensors: found, bytes }
    }
}

impl Source for MemoryFile {
    fn text(&self, key: &str) -> Option<String> {
        match self.meta.get(key)? {
            Meta::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn number(&self, key: &str) -> Option<f64> {
        match self.meta.get(key)? {
            Meta::Number(n) => Some(*n),
            _ => None,
        }
    }

    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        let number = |m: &Meta| match m {
            Meta::Number(n) => Some(*n),
            _ => None,
        };
        match self.meta.get(key)? {
            Meta::List(list) => list.iter().map(number).collect(),
            _ => None,
        }
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        let (shape, kind, at) = self.tensors.get(name)?;
        let format = pumex_quant::all().find(|f| f.ggml_id == *kind)?;
        let len: usize = shape.iter().product();
        let mut shape = shape.clone();
        while shape.len() > 1 && shape.last() == Some(&1) {
            shape.pop();
        }
        Some(StoredTensor {
            shape,
            format: format.id,
            data: &self.bytes[*at..][..len / format.block_len * format.block_bytes],
        })
    }
}

//! A GGUF file as encoders read it.

use pumex_media::{Source, StoredTensor};

use pumex_gguf::meta::Value;
use pumex_gguf::Gguf;

/// A projector's file.
pub struct ProjectorSource(pub Gguf);

fn number(value: &Value) -> Option<f64> {
    Some(match value {
        Value::U8(v) => f64::from(*v),
        Value::I8(v) => f64::from(*v),
        Value::U16(v) => f64::from(*v),
        Value::I16(v) => f64::from(*v),
        Value::U32(v) => f64::from(*v),
        Value::I32(v) => f64::from(*v),
        Value::U64(v) => *v as f64,
        Value::I64(v) => *v as f64,
        Value::F32(v) => f64::from(*v),
        Value::F64(v) => *v,
        Value::Bool(v) => f64::from(u8::from(*v)),
        _ => return None,
    })
}

impl Source for ProjectorSource {
    fn text(&self, key: &str) -> Option<String> {
        self.0.meta().opt_str(key).ok().flatten().map(String::from)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.0.meta().get(key).and_then(number)
    }

    fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        self.0.meta().get(key)?.elements()?.map(|v| number(&v)).collect()
    }

    fn tensor(&self, name: &str) -> Option<StoredTensor<'_>> {
        let tensor = self.0.tensor(name)?;
        let format = pumex_quant::find(tensor.type_id)?;
        let shape = tensor.shape().iter().map(|n| usize::try_from(*n).ok()).collect::<Option<Vec<_>>>()?;
        Some(StoredTensor { shape, format: format.id, data: self.0.data(tensor) })
    }
}

//! llama.cpp's own endpoints.

pub(crate) mod health;

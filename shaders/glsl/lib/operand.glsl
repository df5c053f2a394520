// An operand of kind OPERAND_*, at column i of `len` in group g of a row.
#include "words/general.glsl"

float operand(uint kind, F32 from, uint row, uint g, uint i, uint len, uint stride, uint width, float number) {
    if (kind == OPERAND_COLUMNS) return from.v[row * width + g * stride + i];
    if (kind == OPERAND_PER_GROUP) return from.v[row * width + g * stride];
    if (kind == OPERAND_WEIGHT) return from.v[g * len % width + i];
    if (kind == OPERAND_GROUP_WEIGHT) return from.v[g];
    return number;
}

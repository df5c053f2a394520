// How gemm_few.comp wants activations: where group `i` of four inputs of row `row` of the step is, in groups. `chunks` is the
// length of its weights' chunks, whose groups are neighbours, or 1 for chunks of 64 that are 16 of each quarter of 128;
// `tiles` the matrices of eight rows.
layout(buffer_reference, std430, buffer_reference_align = 8) writeonly buffer Groups { uvec2 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) writeonly buffer Halves { uint16_t v[]; };
uint packed_at(uint chunks, uint tiles, uint row, uint i) {
    uint size = chunks == 1 ? 64 : chunks, chunk = i * 4 / size, group = i % (size / 4);
    if (chunks == 1) {
        chunk = i / 64 * 4 + i / 32 % 2 * 2 + i / 4 % 2;
        group = i / 8 % 4 * 4 + i % 4;
    }
    uint unit = (chunk / 4 * (size / 8) + group / 2) * tiles + row / 8;
    return (unit * 32 + row % 8 * 4 + chunk % 4) * 2 + group % 2;
}
// Four inputs, in the order 0, 2, 1, 3.
uvec2 packed_halves(vec4 v) {
    v = clamp(v, -65504.0, 65504.0);
    return uvec2(packHalf2x16(v.xz), packHalf2x16(v.yw));
}

// The right operand of products by cooperative matrices: activations, as pack.comp lays them out.
// Where the units of all threads start: run `unit` of SHARE matrices of inputs, matrix `wide` of `wides`.
uint unit_of(uint unit, uint wide, uint wides) { return (unit * wides + wide) * 32; }

Activations activations(uvec4 unit, uint which) {
    Activations b;
    [[unroll]] for (uint i = 0; i < EACH; i += 2) {
        f16vec2 two = unpackFloat2x16(unit[(which * EACH + i) / 2]);
        b[i] = two.x;
        b[i + 1] = two.y;
    }
    return b;
}

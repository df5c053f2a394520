// What is added to the score of a query and a key, from values in the arena. Eight words say where a bias lies: its first number, numbers
// from a query to the next, columns of a head, divisor and modulus of the key's digit, of the query's (modulus 0: it does not count), the
// column where both digits are 0.
float biased(uint query, uint key, uint h) {
    float sum = 0.0;
    for (uint i = 0; i < n_biases; i++) {
        const uint at = 8 * i;
        uint col = biases.v[at + 7] + key / biases.v[at + 3] % biases.v[at + 4];
        if (biases.v[at + 6] > 0) col -= query / biases.v[at + 5] % biases.v[at + 6];
        sum += arena.v[biases.v[at] + query * biases.v[at + 1] + h * biases.v[at + 2] + col];
    }
    return sum;
}

// Activations in panels of 64 rows: 16 inputs after 16 (a fragment of each 16 rows, in the order in which the threads of a subgroup
// hold a matrix), inputs padded to 512. Thread 4 g + t has, in 16 bytes, inputs 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of row g, then of
// row g + 8; groups of four inputs are in the order 0, 2, 1, 3.
const uint PANEL_INPUTS = (K + 511) / 512 * 512;
const uint PANEL_BYTES = PANEL_INPUTS * 64 * 2;

// SPDX-License-Identifier: Apache-2.0
//
// The P4-16 core library (P4-16 specification 1.2.5, appendix "P4 Core Library").
//
// Every architecture includes this file; a program can also include it directly. The names, types
// and parameters are those of the specification. The comments define the behaviour on Terrace, in
// particular where the specification leaves a choice.

#ifndef _CORE_P4_
#define _CORE_P4_

/// Errors of a parser. A program adds its own errors with further `error { ... }` declarations; all
/// of them share one set of names.
error {
    /// No error.
    NoError,
    /// `extract`, `lookahead` or `advance` needed more bits than the packet has left. The cursor
    /// and the destination are unchanged.
    PacketTooShort,
    /// No case of a `select` matched its value.
    NoMatch,
    /// `.next` of a full stack, or `.last` or an index outside the bounds of the stack.
    StackOutOfBounds,
    /// The size given to the two-argument `extract` exceeds the maximum of the `varbit` field.
    HeaderTooShort,
    /// The parser visited more states than an engine allows for one packet. The limit ends a loop
    /// of the parser that consumes no input.
    ParserTimeout,
    /// An argument that the engine cannot support, such as a `varbit` size or an `advance` that is
    /// not a whole number of bytes.
    ParserInvalidArgument
}

/// An input packet: a sequence of bits in network order with a cursor, which only moves
/// forward.
extern packet_in {
    /// Reads `hdr` from the bits at the cursor, makes it valid and moves the cursor past it. `T` is
    /// a header of fixed size. If `hdr` is `stack.next`, the stack's next index is incremented.
    /// Errors: PacketTooShort, StackOutOfBounds.
    void extract<T>(out T hdr);

    /// Extracts a header with exactly one `varbit` field. This field takes
    /// `variableFieldSizeInBits` bits (0 is allowed) and the others their own width. Errors:
    /// PacketTooShort, StackOutOfBounds; HeaderTooShort if the size exceeds the maximum of the
    /// field; ParserInvalidArgument if it is not a multiple of 8.
    void extract<T>(out T variableSizeHeader,
                    in bit<32> variableFieldSizeInBits);

    /// Returns the bits at the cursor as a `T` of fixed width without moving the cursor. A returned
    /// header is valid. Error: PacketTooShort.
    T lookahead<T>();

    /// Moves the cursor by `sizeInBits` without reading. Skipped bits are part of no header and are
    /// therefore not emitted again. Errors: PacketTooShort; ParserInvalidArgument if the size is
    /// not a multiple of 8.
    void advance(in bit<32> sizeInBits);

    /// Returns the length of the complete packet in bytes at any cursor position: without preamble
    /// and frame check sequence, but with padding.
    bit<32> length();
}

/// An output packet. The bytes that the parser did not read follow the emitted headers.
extern packet_out {
    /// Appends `hdr` if it is valid. `T` is a header, a header stack (its valid elements, in
    /// order), a header union (its valid member), or a struct of these, whose fields are emitted in
    /// the order of declaration.
    void emit<T>(in T hdr);
}

/// Only in parsers. If `check` is false, sets the parser's error to `toSignal` and goes to the
/// state `reject`.
extern void verify(in bool check, in error toSignal);

/// Does nothing. Default action of a table that names none.
@noWarn("unused")
action NoAction() {}

/// Match kinds of table keys. Architectures add more.
match_kind {
    /// All bits are equal.
    exact,
    /// Equal under the entry's mask. Among several matching entries, the priority decides.
    ternary,
    /// The upper bits are equal, as given by the entry's prefix length. The longest prefix wins.
    lpm
}

/// Stops the compilation with `message` if `check`, a compile-time constant, is false. Returns
/// true, so that it can initialise a `const bool`.
extern bool static_assert(bool check, string message);

/// Stops the compilation with a message that names the source location.
extern bool static_assert(bool check);

#endif  // _CORE_P4_

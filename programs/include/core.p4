// SPDX-License-Identifier: Apache-2.0
//
// The P4-16 core library (P4-16 specification 1.2.5, appendix "P4 Core Library").
//
// Every architecture includes this file; a program may also include it directly. The names,
// types and parameters are those of the specification. The comments say what they mean on
// Terrace, in particular what happens where the specification leaves a choice.

#ifndef _CORE_P4_
#define _CORE_P4_

/// What can go wrong while a packet is parsed. A program adds its own errors with further
/// `error { ... }` declarations; all of them share one set of names.
error {
    /// Nothing went wrong.
    NoError,
    /// `extract`, `lookahead` or `advance` wanted more bits than the packet has left.
    /// The cursor and the destination stay as they were.
    PacketTooShort,
    /// A `select` had no case for its value.
    NoMatch,
    /// `.next` on a full stack, or `.last` or an index outside the stack's bounds.
    StackOutOfBounds,
    /// The size given to the two-argument `extract` exceeds the `varbit` field's maximum.
    HeaderTooShort,
    /// The parser visited more states than an engine allows for one packet. It is the guard
    /// against a packet that keeps a parser loop busy without using up input.
    ParserTimeout,
    /// An argument that the engine can't honour, such as a `varbit` size or an `advance`
    /// that isn't a whole number of bytes.
    ParserInvalidArgument
}

/// A packet on its way in: a string of bits in network order and a cursor, which only ever
/// moves forward.
extern packet_in {
    /// Fills `hdr` from the bits at the cursor, makes it valid and moves the cursor past it.
    /// `T` is a header of fixed size. If `hdr` is `stack.next`, the stack's next index grows
    /// by one. Errors: PacketTooShort, StackOutOfBounds.
    void extract<T>(out T hdr);

    /// The same for a header with exactly one `varbit` field; that field takes
    /// `variableFieldSizeInBits` bits (0 is allowed) and all others their own width.
    /// Errors: PacketTooShort, StackOutOfBounds; HeaderTooShort if the size is larger than the
    /// field's maximum; ParserInvalidArgument if it isn't a multiple of 8.
    void extract<T>(out T variableSizeHeader,
                    in bit<32> variableFieldSizeInBits);

    /// The bits at the cursor, read as a `T` of fixed width; the cursor stays.
    /// A header that is returned is valid. Error: PacketTooShort.
    T lookahead<T>();

    /// Moves the cursor by `sizeInBits` without reading. Skipped bits aren't part of any header
    /// and so aren't emitted again. Errors: PacketTooShort; ParserInvalidArgument if the size
    /// isn't a multiple of 8.
    void advance(in bit<32> sizeInBits);

    /// The length of the whole packet in bytes, wherever the cursor is: without preamble and
    /// frame check sequence, with any padding that came along.
    bit<32> length();
}

/// A packet on its way out. What the parser left unread is put behind all that was emitted.
extern packet_out {
    /// Appends `hdr` if it is valid, else nothing. `T` is a header, a header stack (its valid
    /// elements, in order), a header union (its valid member), or a struct of such, whose
    /// fields are emitted in the order of their declaration.
    void emit<T>(in T hdr);
}

/// Only in parsers. If `check` is false, sets the parser's error to `toSignal` and goes to
/// the state `reject`; else does nothing.
extern void verify(in bool check, in error toSignal);

/// Does nothing. It is the default action of each table that names none.
@noWarn("unused")
action NoAction() {}

/// How a key field of a table is compared. Architectures add more.
match_kind {
    /// All bits are equal.
    exact,
    /// Equal under the entry's mask. Of several entries that match, the priority decides.
    ternary,
    /// The upper bits are equal, as many as the entry's prefix length says. The longest wins.
    lpm
}

/// Stops the compilation with `message` if `check`, a compile-time constant, is false.
/// The value is always true, so that it can stand at the right of a `const bool`.
extern bool static_assert(bool check, string message);

/// The same with a message made from the place in the source.
extern bool static_assert(bool check);

#endif  // _CORE_P4_

// Package starlimit runs Starlark programs within limits of steps, time and
// memory. Starlark in Go counts steps, and can be cancelled between two of them,
// but one step can take any memory and any time: x * 1000000000, list(range(10**9)),
// ",".join(xs) with a long list of one long string.
//
// So the package rewrites a program before it is compiled: each operator, each
// slice and each method that can make something large becomes a call of a function
// that first reckons the size of what will be made, and charges it to the thread's
// account. The same goes for the built-in functions. To a program all this looks
// like Starlark, and its errors have the places of the source.
//
// What is charged is what is made, garbage too: a program that makes and drops
// values has no more than its limit either. Not charged are the small values that a
// single step makes, a dict of one entry for example, so that the limit of steps is
// one of memory as well: a million steps hold less than 300 MB.
package starlimit

// Package pygenttest helps to test programs that use pygent, in the spirit of
// net/http/httptest.
package pygenttest

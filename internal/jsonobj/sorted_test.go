package jsonobj_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jsonobj"
)

func TestSortedObjects(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"a":[1,{"b":2,"c":3}],"d":null}`, jsonobj.Sorted(` { "d" : null, "a": [1, {"c":3, "b":2}]} `))
	require.NotEqual(t, jsonobj.Sorted(`{"n":9007199254740993}`), jsonobj.Sorted(`{"n":9007199254740992}`))
	require.Equal(t, "null", jsonobj.Sorted("[1]"))
}

package taskpool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/taskpool"
)

func TestTurnsThatCameToNothingAreTakenAgain(t *testing.T) {
	var r taskpool.Rota
	require.Equal(t, []int{1, 2, 3}, []int{r.Take(), r.Take(), r.Take()})
	r.GiveBack(3)
	r.GiveBack(1)
	require.Equal(t, []int{1, 3, 4}, []int{r.Take(), r.Take(), r.Take()})
}

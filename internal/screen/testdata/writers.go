package writers

import (
	"fmt"
	"log"
	"os"
	"syscall"
)

func writers() {
	fmt.Println("x")
	fmt.Fprintln(os.Stdout, "x")
	os.Stderr.WriteString("x")
	log.Printf("x")
	println("x")
	print("x")
	syscall.Write(syscall.Stderr, nil)
}

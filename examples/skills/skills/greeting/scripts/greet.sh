echo "Hello $1, and welcome!"

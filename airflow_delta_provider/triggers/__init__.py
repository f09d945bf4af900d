"""The same waits in the triggerer, and the trigger that starts Dags after migrations."""

"""What moved between two states: tensor by tensor, module by module, snapshot by snapshot."""
